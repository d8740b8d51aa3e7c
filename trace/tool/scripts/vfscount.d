/*
 * tool vfscount: calls of functions of the file system layer
 * option -p --pid NUMBER = 0: only this process
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column FUNC: function of the kernel
 * column COUNT: calls
 * needs: kernel feature kprobes, Linux 5.15
 */
#pragma D option quiet

int over;

fbt::vfs_*:entry
/PID == 0 || pid == PID/
{
	@[probefunc] = count();
}

tick-INTERVAL, END
/!over/
{
	printf("%-30s %12s\n", "FUNC", "COUNT");
	printa("%-30s %@12d\n", @);
	trunc(@);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
