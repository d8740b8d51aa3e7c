/*
 * tool memleak: memory that programs allocate and do not free, by stack
 * option -p --pid NUMBER = 0: only this process
 * option -T --top NUMBER = 10: most stacks of an output
 * option -O --library WORD = libc: the library with malloc()
 * operand INTERVAL interval = 5: seconds between outputs
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column stack: functions of the process, innermost first
 * column BYTES: allocated since the start and not freed
 * column ALLOCATIONS: their number
 * needs: uprobes, libc
 * note: without -p each malloc() of the machine is traced, which slows it down
 * note: the stack with the most bytes is last; 0 bytes: all is freed again
 * note: memory of posix_memalign() and of mmap() is not seen
 */
#pragma D option quiet
#pragma D option ustackframes=20

#define TEXT(N) #N
#define NUMBER(N) TEXT(N)

BEGIN
{
	setopt("aggrows", NUMBER(TOP));
}

int over;
int64_t size[int, uint64_t];
self uint64_t size;

uprobe:LIBRARY:malloc:
/PID == 0 || pid == PID/
{
	self->size = arg0;
}

uprobe:LIBRARY:calloc:
/PID == 0 || pid == PID/
{
	self->size = arg0 * arg1;
}

uprobe:LIBRARY:realloc:
/PID == 0 || pid == PID/
{
	self->size = arg1;
}

uretprobe:LIBRARY:malloc:, uretprobe:LIBRARY:calloc:, uretprobe:LIBRARY:realloc:
/self->size && arg1/
{
	size[pid, arg1] = (int64_t)self->size;
	where[pid, arg1] = ustack();
	@bytes[pid, where[pid, arg1]] = sum((int64_t)self->size);
	@n[pid, where[pid, arg1]] = sum(1);
}

uretprobe:LIBRARY:malloc:, uretprobe:LIBRARY:calloc:, uretprobe:LIBRARY:realloc:
{
	self->size = 0;
}

uprobe:LIBRARY:free:, uprobe:LIBRARY:realloc:
/arg0 && size[pid, arg0]/
{
	@bytes[pid, where[pid, arg0]] = sum(-size[pid, arg0]);
	@n[pid, where[pid, arg0]] = sum(-1);
	size[pid, arg0] = 0;
	where[pid, arg0] = 0;
}

tick-INTERVAL, END
/!over/
{
	printf("memory that is not freed:\n");
	printa("pid %d%-6k%@16d bytes in %@d allocations\n", @bytes, @n);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
