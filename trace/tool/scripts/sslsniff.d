/*
 * tool sslsniff: data that programs send and receive with OpenSSL, in plain text
 * option -p --pid NUMBER = 0: only this process
 * option -s --size NUMBER = 200: bytes of each message that are printed
 * option -l --library WORD = libssl: OpenSSL's library
 * column FUNC: WRITE or READ
 * column TIME (s): time since the start
 * column COMM: name of the process
 * column PID: process ID
 * column LEN: bytes
 * column DATA: the first bytes, as text
 * needs: uprobes, libssl
 */
#pragma D option quiet
#pragma D option scratchsize=4096

BEGIN
{
	start = timestamp;
	printf("%-6s %-10s %-16s %-8s %-6s %s\n", "FUNC", "TIME(s)", "COMM", "PID", "LEN", "DATA");
}

uprobe:LIBRARY:SSL_write:
/(PID == 0 || pid == PID) && (int)arg2 > 0/
{
	printf("%-6s %3d.%06d %-16s %-8d %-6d %s\n", "WRITE", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, execname, pid, (int)arg2,
	    stringof(copyin(arg1, arg2 < SIZE ? arg2 : SIZE)));
}

uprobe:LIBRARY:SSL_read:
/PID == 0 || pid == PID/
{
	self->at = arg1;
}

uretprobe:LIBRARY:SSL_read:
/self->at && (int)arg1 > 0/
{
	printf("%-6s %3d.%06d %-16s %-8d %-6d %s\n", "READ", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, execname, pid, (int)arg1,
	    stringof(copyin(self->at, arg1 < SIZE ? arg1 : SIZE)));
}

uretprobe:LIBRARY:SSL_read:
{
	self->at = 0;
}
