/*
 * tool cachestat: use of the page cache by reads and writes
 * operand INTERVAL interval = 1: seconds between outputs
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column LOOKUPS: pages that read() and similar calls asked for
 * column ADDED: pages that were added to the cache: for reads, read ahead, and for writes
 * column DIRTIED: pages that were written to
 * needs: tracepoint mm_filemap_get_pages (Linux 6.12)
 * note: the share of LOOKUPS that the cache had is at least 1 - ADDED / LOOKUPS
 */
#pragma D option quiet

self uintptr_t mapping;
self uint64_t index;
self uint64_t last;

BEGIN
{
	printf("%10s %10s %10s\n", "LOOKUPS", "ADDED", "DIRTIED");
}

/* A read of many pages looks several times, from where it is to the same end: it counts once. */
sdt:filemap::mm_filemap_get_pages
{
	this->again = self->mapping == (uintptr_t)args[0] && self->last == args[2] &&
	    args[1] > self->index;
	@lookups = sum(this->again ? 0 : args[2] - args[1] + 1);
	self->mapping = (uintptr_t)args[0];
	self->index = args[1];
	self->last = args[2];
}

tracepoint:filemap::mm_filemap_add_to_page_cache
{
	@added = sum(1 << args.order);
}

sdt:writeback::writeback_dirty_folio
{
	@dirtied = count();
}

tick-INTERVAL
{
	printa("%@10d %@10d %@10d\n", @lookups, @added, @dirtied);
	clear(@lookups);
	clear(@added);
	clear(@dirtied);
}

tick-INTERVAL
/++outputs == COUNT/
{
	exit(0);
}
