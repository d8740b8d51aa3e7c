/*
 * tool hardirqs: time in handlers of hardware interrupts
 * option -C --count: count the interrupts instead
 * option -d --dist: as distributions, in microseconds
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand OUTPUTS NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column HARDIRQ: name of the handler
 * column TIME (us): sum of the times
 * needs: tracepoints irq_handler_entry and irq_handler_exit
 */
#pragma D option quiet

int over;
uint64_t began[int];

sdt:irq::irq_handler_entry
{
	began[cpu] = timestamp;
}

sdt:irq::irq_handler_exit
/began[cpu]/
{
#if COUNT
	@[stringof(args[1]->name)] = count();
#elif DIST
	@[stringof(args[1]->name)] = quantize((timestamp - began[cpu]) / 1000);
#else
	@[stringof(args[1]->name)] = sum(timestamp - began[cpu]);
#endif
	began[cpu] = 0;
}

tick-INTERVAL, END
/!over/
{
#if DIST
	printa("hardirq = %s (us)%@d\n", @);
#else
	printf("%-26s %16s\n", "HARDIRQ", COUNT ? "COUNT" : "TIME(us)");
#if !COUNT
	normalize(@, 1000);
#endif
	printa("%-26s %@16d\n", @);
#endif
	trunc(@);
}

tick-INTERVAL
/++outputs == OUTPUTS/
{
	over = 1;
	exit(0);
}
