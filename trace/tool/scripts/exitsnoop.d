/*
 * tool exitsnoop: processes that end, with their age and the reason
 * option -t --timestamp: print the time since the start, in seconds
 * option -x --failed: only exits with a status other than 0
 * option -p --pid NUMBER = 0: only this process
 * option -T --threads: threads too
 * column PCOMM: name of the process
 * column PID: process ID
 * column PPID: process ID of the parent
 * column TID: thread ID
 * column AGE (s): time since the process or thread began
 * column EXIT: "code N", or "signal N"
 * needs: tracepoint sched_process_exit
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%s%-16s %-8s %-8s %-8s %-9s %s\n", TIMESTAMP ? "TIME(s)    " : "", "PCOMM", "PID",
	    "PPID", "TID", "AGE(s)", "EXIT");
}

sdt:sched::sched_process_exit
/(THREADS || pid == tid) && (PID == 0 || pid == PID) && (!FAILED || curthread->exit_code != 0)/
{
	this->age = timestamp - curthread->start_time;
#if TIMESTAMP
	printf("%3d.%06d ", (timestamp - start) / 1000000000, (timestamp - start) / 1000 % 1000000);
#endif
	printf("%-16s %-8d %-8d %-8d %d.%06d ", execname, pid, ppid, tid, this->age / 1000000000,
	    this->age / 1000 % 1000000);
	printf("%s %d\n", curthread->exit_code & 127 ? "signal" : "code",
	    curthread->exit_code & 127 ? curthread->exit_code & 127 : curthread->exit_code >> 8);
}
