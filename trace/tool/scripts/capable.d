/*
 * tool capable: checks of capabilities by the kernel
 * option -p --pid NUMBER = 0: only this process
 * option -x --failed: only checks that fail
 * column UID: user
 * column PID: process ID
 * column COMM: name of the process
 * column CAP: number of the capability
 * column NAME: its name
 * column RET: 0: granted
 * needs: tracepoint cap_capable (Linux 6.13)
 */
#pragma D option quiet

inline string capability[int c] = c == 0 ? "CAP_CHOWN" : c == 1 ? "CAP_DAC_OVERRIDE" :
    c == 2 ? "CAP_DAC_READ_SEARCH" : c == 3 ? "CAP_FOWNER" : c == 4 ? "CAP_FSETID" :
    c == 5 ? "CAP_KILL" : c == 6 ? "CAP_SETGID" : c == 7 ? "CAP_SETUID" :
    c == 8 ? "CAP_SETPCAP" : c == 10 ? "CAP_NET_BIND_SERVICE" : c == 12 ? "CAP_NET_ADMIN" :
    c == 13 ? "CAP_NET_RAW" : c == 14 ? "CAP_IPC_LOCK" : c == 16 ? "CAP_SYS_MODULE" :
    c == 18 ? "CAP_SYS_CHROOT" : c == 19 ? "CAP_SYS_PTRACE" : c == 21 ? "CAP_SYS_ADMIN" :
    c == 23 ? "CAP_SYS_NICE" : c == 24 ? "CAP_SYS_RESOURCE" : c == 25 ? "CAP_SYS_TIME" :
    c == 27 ? "CAP_MKNOD" : c == 29 ? "CAP_AUDIT_WRITE" : c == 38 ? "CAP_PERFMON" :
    c == 39 ? "CAP_BPF" : "other";

BEGIN
{
	printf("%-6s %-8s %-16s %-4s %-20s %s\n", "UID", "PID", "COMM", "CAP", "NAME", "RET");
}

sdt:capability::cap_capable
/(PID == 0 || pid == PID) && (!FAILED || args[4] != 0)/
{
	printf("%-6d %-8d %-16s %-4d %-20s %d\n", uid, pid, execname, args[3], capability[args[3]],
	    args[4]);
}
