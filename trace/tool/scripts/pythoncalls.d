/*
 * tool pythoncalls: calls of functions of a Python program
 * option -T --top NUMBER = 30: most rows of an output
 * operand PID NUMBER: process ID
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * column FILE: file with the function
 * column FUNC: function
 * column COUNT: calls
 * needs: uprobes, a Python with USDT probes (--with-dtrace)
 */
#pragma D option quiet

#define TEXT(N) #N
#define NUMBER(N) TEXT(N)

BEGIN
{
	setopt("aggrows", NUMBER(TOP));
}

#define GLUE(P, N) P##N
#define PYTHON(N) GLUE(python, N)

PYTHON(PID):::function-entry
{
	@[basename(copyinstr(arg0)), copyinstr(arg1)] = count();
}

tick-INTERVAL, END
{
	printf("%-32s %-32s %10s\n", "FILE", "FUNC", "COUNT");
	printa("%-32s %-32s %@10d\n", @);
	trunc(@);
}
