/*
 * tool deadlock: pairs of mutexes that threads of a process lock in both orders
 * option -p --pid NUMBER = 0: only this process
 * option -l --library WORD = libc: the library with pthread_mutex_lock()
 * column PID: process ID
 * column COMM: name of the thread
 * column MUTEX: the mutexes, and the stack that locks the second while it holds the first
 * needs: uprobes, libc
 * note: only the last three mutexes that a thread holds are compared
 * note: cycles of three or more mutexes are not found
 */
#pragma D option quiet
#pragma D option ustackframes=20

int order[int, uint64_t, uint64_t];
self uint64_t a;
self uint64_t b;
self uint64_t c;
self int moved;

BEGIN
{
	printf("mutexes that are locked in both orders:\n");
}

uprobe:LIBRARY:pthread_mutex_lock:
/(PID == 0 || pid == PID) && self->a && self->a != arg0/
{
	order[pid, self->a, arg0] = 1;
}

uprobe:LIBRARY:pthread_mutex_lock:
/(PID == 0 || pid == PID) && self->b && self->b != arg0/
{
	order[pid, self->b, arg0] = 1;
}

uprobe:LIBRARY:pthread_mutex_lock:
/self->a && order[pid, arg0, self->a] && !printed[pid, arg0 + self->a]/
{
	printed[pid, arg0 + self->a] = 1;
	printf("pid %d %s: 0x%x is locked while 0x%x is held, and elsewhere in the other order:", pid,
	    execname, arg0, self->a);
	ustack();
	printf("\n");
}

uprobe:LIBRARY:pthread_mutex_lock:
/self->b && order[pid, arg0, self->b] && !printed[pid, arg0 + self->b]/
{
	printed[pid, arg0 + self->b] = 1;
	printf("pid %d %s: 0x%x is locked while 0x%x is held, and elsewhere in the other order:", pid,
	    execname, arg0, self->b);
	ustack();
	printf("\n");
}

uprobe:LIBRARY:pthread_mutex_lock:
/PID == 0 || pid == PID/
{
	self->c = self->b;
	self->b = self->a;
	self->a = arg0;
}

uprobe:LIBRARY:pthread_mutex_unlock:
/self->a == arg0/
{
	self->a = self->b;
	self->b = self->c;
	self->c = 0;
	self->moved = 1;
}

uprobe:LIBRARY:pthread_mutex_unlock:
/!self->moved && self->b == arg0/
{
	self->b = self->c;
	self->c = 0;
}

uprobe:LIBRARY:pthread_mutex_unlock:
{
	self->moved = 0;
}
