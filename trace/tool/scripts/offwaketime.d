/*
 * tool offwaketime: time off the CPU by stack, with the thread that ended the wait and its stack
 * option -p --pid NUMBER = 0: only this process
 * option -T --top NUMBER = 30: most pairs of stacks of an output
 * operand SECONDS interval = none: end after this time
 * column stack: functions of the kernel, innermost first: of the thread, then of the waker
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

sched:::off-cpu
/pid != 0 && (PID == 0 || pid == PID)/
{
	self->t = timestamp;
}

sched:::wakeup
/PID == 0 || args[1]->pr_pid == PID/
{
	waker[args[0]->pr_lwpid] = execname;
	where[args[0]->pr_lwpid] = stack();
}

sched:::on-cpu
/self->t/
{
	@[execname, pid, stack(), waker[tid], where[tid]] = sum((timestamp - self->t) / 1000);
	self->t = 0;
}

/* A thread that is preempted is not woken before it runs again. */
sched:::on-cpu
{
	waker[tid] = NULL;
	where[tid] = 0;
}

END
{
	printa("%s (%d)%-6k    -- woken by %s%-6k%@16d us\n", @);
}

tick-SECONDS
{
	exit(0);
}
