/*
 * tool pythoncalls: calls of functions of Python programs
 * option -T --top NUMBER = 30: most rows of an output
 * operand PID NUMBER = 0: process ID; 0 is all processes
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * column PID: process ID
 * column FILE: file with the function
 * column FUNC: function
 * column COUNT: calls
 * note: each line that a Python program executes costs it about a microsecond more
 * needs: uprobes, a Python with USDT probes (--with-dtrace)
 */
#pragma D option quiet

#define TEXT(N) #N
#define NUMBER(N) TEXT(N)

BEGIN
{
	setopt("aggrows", NUMBER(TOP));
}

#if PID
#define GLUE(P, N) P##N
#define PYTHON(N) GLUE(python, N)

PYTHON(PID):::function-entry
#else
python*:::function-entry
#endif
{
	@[pid, basename(copyinstr(arg0)), copyinstr(arg1)] = count();
}

/* Since CPython 3.11 a function that Python code calls fires its probe only while this is on. */
#if PID
PYTHON(PID):::line
#else
python*:::line
#endif
/0/
{
}

tick-INTERVAL, END
{
	printf("%-8s %-32s %-32s %10s\n", "PID", "FILE", "FUNC", "COUNT");
	printa("%-8d %-32s %-32s %@10d\n", @);
	trunc(@);
}
