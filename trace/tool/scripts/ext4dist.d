/*
 * tool ext4dist: time of operations of ext4 as distributions
 * option -p --pid NUMBER = 0: only this process
 * option -m --milliseconds: in milliseconds, not microseconds
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column operation: read_iter, write_iter, open, sync
 * column value (us): time in ext4
 * column count: operations
 * needs: kernel feature kprobes, Linux 5.15, ext4
 */
#pragma D option quiet

int over;

fbt::ext4_file_read_iter:entry, fbt::ext4_file_write_iter:entry, fbt::ext4_file_open:entry,
fbt::ext4_sync_file:entry
/PID == 0 || pid == PID/
{
	self->t = timestamp;
}

fbt::ext4_file_read_iter:return, fbt::ext4_file_write_iter:return, fbt::ext4_file_open:return,
fbt::ext4_sync_file:return
/self->t/
{
	@[probefunc] = quantize((timestamp - self->t) / (MILLISECONDS ? 1000000 : 1000));
	self->t = 0;
}

tick-INTERVAL, END
/!over/
{
	printf("time in %s\n", MILLISECONDS ? "ms" : "us");
	printa("operation = %s%@d\n", @);
	trunc(@);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
