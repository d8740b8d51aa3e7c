/*
 * System calls, from entry to return. A call that does not return, such as exit_group, is not
 * counted. The kernel reports entry and return by the tracepoints raw_syscalls:sys_enter and
 * sys_exit. The time of the entry is stored with the thread.
 *
 * statistic syscall.count delta event by syscall process pid error: system calls that returned
 *     (raw_syscalls:sys_exit), without those of culprit itself
 * statistic syscall.time delta ns by syscall process pid error: time within system calls, including
 *     sleep, counted when they return (raw_syscalls:sys_enter to sys_exit), without those of
 *     culprit itself
 * statistic syscall.latency dist ns by syscall process pid error: how long system calls took, to a
 *     quarter of each power of two (raw_syscalls:sys_enter to sys_exit), without those of culprit
 *     itself
 * field syscall word of syscall: name of the call
 * field process word: name of the thread that made it
 * field pid number: its process ID
 * field error word of errno: name of the error that it returned, such as ENOENT; none
 * without culprit
 */
syscall:::entry { self->began = timestamp; }
syscall:::return { @syscall_count[id, execname, pid, errno] = count(); }
syscall:::return /self->began/ {
	@syscall_time[id, execname, pid, errno] = sum(timestamp - self->began);
	@syscall_latency[id, execname, pid, errno] =
	    llquantize(timestamp - self->began, 2, 5, 40, 8);
	self->began = 0;
}
