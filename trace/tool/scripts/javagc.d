/*
 * tool javagc: garbage collections of a Java program, with their time
 * operand PID NUMBER: process ID
 * operand MIN_MS NUMBER = 0: milliseconds; shorter ones are not shown
 * column TIME (s): time since the start
 * column LAT (ms): time of the collection
 * column FULL: 1 for a full collection
 * needs: uprobes, a JVM with USDT probes (OpenJDK of Debian, Fedora ...)
 */
#pragma D option quiet

#define GLUE(P, N) P##N
#define JVM(N) GLUE(hotspot, N)

BEGIN
{
	start = timestamp;
	printf("%-10s %10s %s\n", "TIME(s)", "LAT(ms)", "FULL");
}

JVM(PID):::gc-begin
{
	began = timestamp;
	full = arg0 & 1;
}

JVM(PID):::gc-end
/began && timestamp - began >= MIN_MS * 1000000/
{
	printf("%3d.%06d %6d.%03d %d\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, (timestamp - began) / 1000000,
	    (timestamp - began) / 1000 % 1000, full);
}
