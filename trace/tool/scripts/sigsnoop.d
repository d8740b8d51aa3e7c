/*
 * tool sigsnoop: signals, also those that the kernel sends
 * option -p --pid NUMBER = 0: only signals that this process causes
 * option -s --signal NUMBER = 0: only this signal
 * column PID: process that causes it
 * column COMM: its name
 * column SIG: the signal
 * column TPID: process ID of the receiver
 * column TCOMM: its name
 * needs: tracepoint signal_generate
 */
#pragma D option quiet

BEGIN
{
	printf("%-8s %-16s %-4s %-8s %s\n", "PID", "COMM", "SIG", "TPID", "TCOMM");
}

proc:::signal-send
/(PID == 0 || pid == PID) && (SIGNAL == 0 || args[2] == SIGNAL)/
{
	printf("%-8d %-16s %-4d %-8d %s\n", pid, execname, args[2], args[1]->pr_pid,
	    args[1]->pr_fname);
}
