/*
 * tool wqlat: time that work items wait in the kernel's workqueues, as a distribution
 * option -W --workqueues: one distribution per function
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column value (us): time between queueing and start, a power of two and more
 * column count: work items
 * needs: tracepoints workqueue_queue_work and workqueue_execute_start
 */
#pragma D option quiet

int over;

tracepoint:workqueue::workqueue_queue_work
{
	queued[(uintptr_t)args.work] = timestamp;
}

tracepoint:workqueue::workqueue_execute_start
/queued[(uintptr_t)args.work]/
{
#if WORKQUEUES
	@[func((uintptr_t)args.function)] =
	    quantize((timestamp - queued[(uintptr_t)args.work]) / 1000);
#else
	@ = quantize((timestamp - queued[(uintptr_t)args.work]) / 1000);
#endif
	queued[(uintptr_t)args.work] = 0;
}

tick-INTERVAL, END
/!over/
{
	printf("time in us\n");
#if WORKQUEUES
	printa("function = %a%@d\n", @);
#else
	printa(@);
#endif
	trunc(@);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
