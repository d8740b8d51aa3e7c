/*
 * tool filetop: files that are read and written most
 * option -p --pid NUMBER = 0: only this process
 * option -a --all-files: also pipes, sockets and devices
 * option -r --maxrows NUMBER = 20: most rows of an output
 * operand INTERVAL interval = 1: seconds between outputs
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column PID: process ID
 * column COMM: name of the process
 * column READS: calls that read
 * column WRITES: calls that write
 * column R_KB (KiB): read
 * column W_KB (KiB): written
 * column KB (KiB): read and written
 * column FILE: path of the file
 * needs: system call tracepoints
 */
#pragma D option quiet
#pragma D option aggsortpos=4
#pragma D option aggsortrev

#define TEXT(N) #N
#define NUMBER(N) TEXT(N)

BEGIN
{
	setopt("aggrows", NUMBER(MAXROWS));
}

int over;

#define IS_FILE(N) (ALL_FILES || N >= 0 && N < curthread->files->fdt->max_fds && \
    curthread->files->fdt->fd[N] != NULL && \
    (curthread->files->fdt->fd[N]->f_inode->i_mode & 0170000) == 0100000)

syscall::*read*:entry
/(probefunc == "read" || probefunc == "pread64" || probefunc == "readv" ||
 probefunc == "preadv") && (PID == 0 || pid == PID) && IS_FILE((int)arg0)/
{
	self->fd = (int)arg0 + 1;
	self->writes = 0;
}

syscall::*write*:entry
/(probefunc == "write" || probefunc == "pwrite64" || probefunc == "writev" ||
 probefunc == "pwritev") && (PID == 0 || pid == PID) && IS_FILE((int)arg0)/
{
	self->fd = (int)arg0 + 1;
	self->writes = 1;
}

syscall::*read*:return, syscall::*write*:return
/self->fd && (long)arg0 >= 0/
{
	this->file = fds[self->fd - 1].fi_pathname;
	@all[pid, execname, this->file] = sum(arg0);
	@reads[pid, execname, this->file] = sum(!self->writes);
	@writes[pid, execname, this->file] = sum(self->writes);
	@r[pid, execname, this->file] = sum(self->writes ? 0 : arg0);
	@w[pid, execname, this->file] = sum(self->writes ? arg0 : 0);
}

syscall::*read*:return, syscall::*write*:return
{
	self->fd = 0;
}

tick-INTERVAL, END
/!over/
{
	printf("%-8s %-16s %8s %8s %9s %9s %9s %s\n", "PID", "COMM", "READS", "WRITES", "R_KB",
	    "W_KB", "KB", "FILE");
	normalize(@r, 1024);
	normalize(@w, 1024);
	normalize(@all, 1024);
	printa("%-8d %-16s %@8d %@8d %@9d %@9d %@9d %s\n", @reads, @writes, @r, @w,
	    @all);
	trunc(@all);
	trunc(@reads);
	trunc(@writes);
	trunc(@r);
	trunc(@w);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
