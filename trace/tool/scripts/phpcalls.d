/*
 * tool phpcalls: calls of functions of PHP programs
 * option -T --top NUMBER = 30: most rows of an output
 * operand PID NUMBER = 0: process ID; 0 is all processes
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * column PID: process ID
 * column FILE: file with the function
 * column CLASS: class of a method
 * column FUNC: function
 * column COUNT: calls
 * needs: uprobes, a PHP with USDT probes (--enable-dtrace) that runs with USE_ZEND_DTRACE=1
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
#define PHP(N) GLUE(php, N)

PHP(PID):::function-entry
#else
php*:::function-entry
#endif
{
	@[pid, basename(copyinstr(arg1)), copyinstr(arg3), copyinstr(arg0)] = count();
}

tick-INTERVAL, END
{
	printf("%-8s %-24s %-16s %-24s %10s\n", "PID", "FILE", "CLASS", "FUNC", "COUNT");
	printa("%-8d %-24s %-16s %-24s %@10d\n", @);
	trunc(@);
}
