/*
 * tool bashreadline: command lines that are typed in any running bash
 * option -s --shared WORD = /bin/bash: bash, or its library libreadline
 * column TIME (s): time since the start
 * column PID: process ID
 * column COMMAND: the line
 * needs: uprobes, bash
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%-10s %-8s %s\n", "TIME(s)", "PID", "COMMAND");
}

uretprobe:SHARED:readline:
/arg1 != 0/
{
	printf("%3d.%06d %-8d %s\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, pid, copyinstr(arg1));
}
