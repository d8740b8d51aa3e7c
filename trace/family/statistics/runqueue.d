/*
 * Waiting for a CPU: from when a thread is woken, or preempted, until it is on a CPU. A wait
 * includes moves to the queues of other CPUs.
 *
 * statistic runqueue.latency dist ns by cpu process pid: how long threads waited for a CPU each
 *     time, to a quarter of each power of two (sched:sched_wakeup, sched_wakeup_new, sched_switch)
 * statistic runqueue.time delta ns by cpu process pid: time that threads waited for a CPU, counted
 *     when they got it (sched:sched_wakeup, sched_wakeup_new, sched_switch)
 * field cpu number: CPU on which the thread then ran
 * field process word: name of the thread that waited
 * field pid number: its process ID
 */
self uint64_t ready;
/* A thread that leaves a CPU was on it. If the kernel did not report that, the wait is unknown. */
sched:::off-cpu /self->ready/ { self->ready = 0; }
sched:::ready { self->ready = timestamp; }
sched:::on-cpu /self->ready/ {
	@runqueue_latency[cpu, execname, pid] = llquantize(timestamp - self->ready, 2, 5, 40, 8);
	@runqueue_time[cpu, execname, pid] = sum(timestamp - self->ready);
	self->ready = 0;
}
