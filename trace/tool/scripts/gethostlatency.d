/*
 * tool gethostlatency: time to look up the names of hosts
 * option -p --pid NUMBER = 0: only this process
 * column TIME (s): time since the start
 * column PID: process ID
 * column COMM: name of the process
 * column LAT (ms): time in the library
 * column HOST: the name
 * needs: uprobes, libc
 * note: programs that do not use the C library are not seen, such as many in Go
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%-10s %-8s %-16s %10s %s\n", "TIME(s)", "PID", "COMM", "LAT(ms)", "HOST");
}

uprobe:libc:getaddrinfo:, uprobe:libc:gethostbyname:, uprobe:libc:gethostbyname2:
/(PID == 0 || pid == PID) && arg0 != 0/
{
	self->t = timestamp;
	self->host = arg0;
}

uretprobe:libc:getaddrinfo:, uretprobe:libc:gethostbyname:, uretprobe:libc:gethostbyname2:
/self->t/
{
	this->lat = timestamp - self->t;
	printf("%3d.%06d %-8d %-16s %6d.%03d %s\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, pid, execname, this->lat / 1000000,
	    this->lat / 1000 % 1000, copyinstr(self->host));
	self->t = 0;
}
