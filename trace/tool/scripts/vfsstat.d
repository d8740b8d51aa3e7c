/*
 * tool vfsstat: calls of the file system layer per interval
 * option -p --pid NUMBER = 0: only this process
 * operand INTERVAL interval = 1: seconds between outputs
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column READ: reads
 * column WRITE: writes
 * column FSYNC: files written to disk
 * column OPEN: opens
 * column CREATE: files created
 * needs: kernel feature kprobes, Linux 5.15
 */
#pragma D option quiet

BEGIN
{
	printf("%8s %8s %8s %8s %8s\n", "READ", "WRITE", "FSYNC", "OPEN", "CREATE");
}

fbt::vfs_read:entry, fbt::vfs_write:entry, fbt::vfs_fsync_range:entry, fbt::vfs_open:entry,
fbt::vfs_create:entry
/PID == 0 || pid == PID/
{
	@read = sum(probefunc == "vfs_read");
	@write = sum(probefunc == "vfs_write");
	@fsync = sum(probefunc == "vfs_fsync_range");
	@open = sum(probefunc == "vfs_open");
	@create = sum(probefunc == "vfs_create");
}

tick-INTERVAL
{
	printa("%@8d %@8d %@8d %@8d %@8d\n", @read, @write, @fsync, @open, @create);
	clear(@read);
	clear(@write);
	clear(@fsync);
	clear(@open);
	clear(@create);
}

tick-INTERVAL
/++outputs == COUNT/
{
	exit(0);
}
