/*
 * tool swapin: pages that processes read back from swap
 * operand INTERVAL interval = 1: seconds between outputs
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column COMM: name of the process
 * column PID: process ID
 * column COUNT: pages
 * needs: kernel feature kprobes, Linux 5.15
 */
#pragma D option quiet

int over;

fbt::swap_read*:entry
/probefunc == "swap_readpage" || probefunc == "swap_read_folio"/
{
	@[execname, pid] = count();
}

tick-INTERVAL, END
/!over/
{
	printf("%-16s %-8s %8s\n", "COMM", "PID", "COUNT");
	printa("%-16s %-8d %@8d\n", @);
	trunc(@);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
