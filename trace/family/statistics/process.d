/*
 * Processes that execute programs or end, including short-lived ones, and signals that are sent.
 *
 * statistic process.exec.count delta event by process pid parent parentprocess: programs that were
 *     executed (sched:sched_process_exec)
 * statistic process.exit.count delta event by process pid reason: processes that ended
 *     (sched:sched_process_exit)
 * statistic process.lifetime dist ns by process pid reason: how long processes that ended had
 *     lived since fork, to a quarter of each power of two (sched:sched_process_exit)
 * statistic process.signal.count delta event by signal process pid sender: signals that were sent,
 *     without those that no process would receive (signal:signal_generate)
 * field process word: name of the process; of a signal, name of the thread that receives it
 * field pid number: its process ID
 * field parent number: process ID of the parent
 * field parentprocess word: its name
 * field reason word of exit: exited, or killed or dumped by a signal
 * field signal word of signal: SIGTERM SIGCHLD ...
 * field sender word: name of the thread that was on the CPU: the sender, unless a timer, a terminal
 *     or the kernel sent it
 */
proc:::exec-success {
	@process_exec_count[execname, pid, ppid, stringof(curthread->real_parent->comm)] = count();
}
proc:::exit {
	@process_exit_count[stringof(curthread->group_leader->comm), pid, args[0]] = count();
	@process_lifetime[stringof(curthread->group_leader->comm), pid, args[0]] =
	    llquantize(timestamp - curthread->group_leader->start_time, 2, 5, 50, 8);
}
proc:::signal-send {
	@process_signal_count[args[2], stringof(args[1]->pr_fname), args[1]->pr_pid, execname] =
	    count();
}
