/*
 * tool undump: data that processes receive from UNIX domain sockets
 * option -p --pid NUMBER = 0: only this process
 * option -s --size NUMBER = 64: bytes of each message that are printed
 * column PID: process ID of the receiver
 * column COMM: its name
 * column BYTES: bytes that it read
 * column DATA: the first bytes, as text
 * needs: system call tracepoints
 */
#pragma D option quiet

BEGIN
{
	printf("%-8s %-16s %8s %s\n", "PID", "COMM", "BYTES", "DATA");
}

syscall::read:entry, syscall::recvfrom:entry
/(PID == 0 || pid == PID) && (int)arg0 >= 0 && arg0 < curthread->files->fdt->max_fds &&
 curthread->files->fdt->fd[(int)arg0] != NULL &&
 (curthread->files->fdt->fd[(int)arg0]->f_inode->i_mode & 0170000) == 0140000/
{
	this->socket = (struct socket *)curthread->files->fdt->fd[(int)arg0]->private_data;
	self->at = this->socket->sk->__sk_common.skc_family == 1 ? arg1 : 0;
}

syscall::read:return, syscall::recvfrom:return
/self->at && (long)arg0 > 0/
{
	printf("%-8d %-16s %8d %s\n", pid, execname, arg0,
	    stringof(copyin(self->at, arg0 < SIZE ? arg0 : SIZE)));
}

syscall::read:return, syscall::recvfrom:return
{
	self->at = 0;
}
