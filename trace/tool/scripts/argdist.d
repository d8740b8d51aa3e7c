/*
 * tool argdist: values of an argument or expression at a probe
 * option -p --pid NUMBER = 0: only this process
 * option -H --hist: as a distribution, not a count per value
 * option -i --interval interval = none: seconds between outputs; without it, one output at the end
 * option -T --top NUMBER = 30: most rows of an output
 * operand PATTERN PROBE: vfs_read, c:malloc, r:c:read, t:block:block_rq_issue, or a probe of D
 * operand EXPRESSION CODE: an expression of D: arg0, args.bytes, copyinstr(arg0)
 * column value: of the expression
 * column count: times
 * needs: what the probe needs: kprobes for functions of the kernel
 */
#pragma D option quiet

#define TEXT(N) #N
#define NUMBER(N) TEXT(N)

BEGIN
{
	setopt("aggrows", NUMBER(TOP));
}

PATTERN
/PID == 0 || pid == PID/
{
#if HIST
	@ = quantize(EXPRESSION);
#else
	@[EXPRESSION] = count();
#endif
}

tick-INTERVAL, END
{
	printa(@);
	trunc(@);
}
