/*
 * tool softirqs: time in soft interrupts
 * option -C --count: count them instead
 * option -d --dist: as distributions, in microseconds
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand OUTPUTS NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column SOFTIRQ: name of the soft interrupt
 * column TIME (us): sum of the times
 * needs: tracepoints softirq_entry and softirq_exit
 */
#pragma D option quiet

inline string softirq[int n] = n == 0 ? "hi" : n == 1 ? "timer" : n == 2 ? "net_tx" :
    n == 3 ? "net_rx" : n == 4 ? "block" : n == 5 ? "irq_poll" : n == 6 ? "tasklet" :
    n == 7 ? "sched" : n == 8 ? "hrtimer" : n == 9 ? "rcu" : "other";

int over;
uint64_t began[int];

sdt:irq::softirq_entry
{
	began[cpu] = timestamp;
}

sdt:irq::softirq_exit
/began[cpu]/
{
#if COUNT
	@[softirq[(int)args[0]]] = count();
#elif DIST
	@[softirq[(int)args[0]]] = quantize((timestamp - began[cpu]) / 1000);
#else
	@[softirq[(int)args[0]]] = sum(timestamp - began[cpu]);
#endif
	began[cpu] = 0;
}

tick-INTERVAL, END
/!over/
{
#if DIST
	printa("softirq = %s (us)%@d\n", @);
#else
	printf("%-26s %16s\n", "SOFTIRQ", COUNT ? "COUNT" : "TIME(us)");
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
