/*
 * tool oomkill: processes that the kernel kills because memory has run out
 * column FPID: process that asked for memory
 * column FCOMM: its name
 * column TPID: process that is killed
 * column ADJ: its oom_score_adj
 * column PAGES: pages of its address space
 * needs: tracepoint oom:mark_victim
 */
#pragma D option quiet

BEGIN
{
	printf("%-8s %-16s %-8s\n", "FPID", "FCOMM", "TPID");
}

tracepoint:oom::mark_victim
{
	printf("%-8d %-16s %-8d\n", pid, execname, args.pid);
}
