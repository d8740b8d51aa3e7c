/*
 * tool javagc: garbage collections of Java programs, with their time
 * operand PID NUMBER = 0: process ID; 0 is all processes
 * operand MIN_MS NUMBER = 0: milliseconds; shorter ones are not shown
 * column TIME (s): time since the start
 * column PID: process ID
 * column LAT (ms): time of the collection
 * column FULL: 1 for a full collection
 * needs: uprobes, a JVM with USDT probes (OpenJDK of Debian, Fedora ...)
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%-10s %-8s %10s %s\n", "TIME(s)", "PID", "LAT(ms)", "FULL");
}

#if PID
#define GLUE(P, N) P##N
#define JVM(N) GLUE(hotspot, N)

JVM(PID):::gc-begin
#else
hotspot*:::gc-begin
#endif
{
	began[pid] = timestamp;
	full[pid] = arg0 & 1;
}

#if PID
JVM(PID):::gc-end
#else
hotspot*:::gc-end
#endif
/began[pid] && timestamp - began[pid] >= MIN_MS * 1000000/
{
	printf("%3d.%06d %-8d %6d.%03d %d\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, pid,
	    (timestamp - began[pid]) / 1000000, (timestamp - began[pid]) / 1000 % 1000,
	    full[pid]);
}

#if PID
JVM(PID):::gc-end
#else
hotspot*:::gc-end
#endif
{
	began[pid] = 0;
	full[pid] = 0;
}
