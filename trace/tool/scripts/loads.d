/*
 * tool loads: load averages of 1, 5 and 15 minutes
 * operand INTERVAL interval = 1: seconds between outputs
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column 1MIN: load average of one minute
 * column 5MIN: of five minutes
 * column 15MIN: of 15 minutes
 * needs: the kernel's symbol avenrun (CONFIG_KALLSYMS_ALL)
 */
#pragma D option quiet

inline unsigned long load[int i] = ((unsigned long *)&`avenrun)[i];

BEGIN
{
	printf("%8s %8s %8s\n", "1MIN", "5MIN", "15MIN");
}

tick-INTERVAL
{
	printf("%5d.%02d %5d.%02d %5d.%02d\n", load[0] >> 11, (load[0] & 2047) * 100 / 2048,
	    load[1] >> 11, (load[1] & 2047) * 100 / 2048, load[2] >> 11,
	    (load[2] & 2047) * 100 / 2048);
}

tick-INTERVAL
/++outputs == COUNT/
{
	exit(0);
}
