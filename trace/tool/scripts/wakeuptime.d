/*
 * tool wakeuptime: time that threads slept, by the waker and its kernel stack
 * option -p --pid NUMBER = 0: only threads that this process wakes
 * option -T --top NUMBER = 30: most stacks of an output
 * operand SECONDS interval = none: end after this time
 * column waker: name of the thread that wakes
 * column target: name of the thread that slept
 * column stack: functions of the kernel, innermost first, of the waker
 * column time (us): sum of the times off the CPU
 * needs: tracepoints sched_switch and sched_wakeup
 */
#pragma D option quiet

#define TEXT(N) #N
#define NUMBER(N) TEXT(N)

BEGIN
{
	setopt("aggrows", NUMBER(TOP));
}

int64_t slept[int];

sched:::off-cpu
/pid != 0/
{
	slept[tid] = timestamp;
}

sched:::wakeup
/slept[args[0]->pr_lwpid] && (PID == 0 || pid == PID)/
{
	@[execname, stack(), args[1]->pr_fname] = sum((timestamp - slept[args[0]->pr_lwpid]) / 1000);
}

sched:::wakeup
{
	slept[args[0]->pr_lwpid] = 0;
}

END
{
	printa("waker: %s%-6k    target: %s%@16d us\n", @);
}

tick-SECONDS
{
	exit(0);
}
