/*
 * tool funclatency: time in functions, as a distribution
 * option -p --pid NUMBER = 0: only this process
 * option -i --interval interval = none: seconds between outputs; without it, one output at the end
 * option -u --microseconds: in microseconds, not nanoseconds
 * option -m --milliseconds: in milliseconds
 * option -F --function: one distribution per function
 * operand PATTERN PROBE: vfs_read, c:getaddrinfo, uprobe:FILE:FUNCTION: or syscall::read:entry
 * column value (ns): time between entry and return, a power of two and more
 * column count: calls
 * needs: what the probe needs: kprobes for functions of the kernel
 * note: calls of a function within itself are measured from the last entry
 */
#pragma D option quiet

#ifndef PATTERN_RETURN
#error "name a function, FUNCTION or FILE:FUNCTION: only functions have a return"
#endif

PATTERN
/PID == 0 || pid == PID/
{
	self->t = timestamp;
}

PATTERN_RETURN
/self->t/
{
	@times[FUNCTION ? probefunc : "all"] =
	    quantize((timestamp - self->t) / (MILLISECONDS ? 1000000 : MICROSECONDS ? 1000 : 1));
	@avg = avg(timestamp - self->t);
	@n = count();
	self->t = 0;
}

tick-INTERVAL, END
{
	printf("time in %s\n", MILLISECONDS ? "ms" : MICROSECONDS ? "us" : "ns");
	printa("function = %s%@d\n", @times);
	printa("avg = %@d ns, count = %@d\n", @avg, @n);
	trunc(@times);
	trunc(@avg);
	trunc(@n);
}
