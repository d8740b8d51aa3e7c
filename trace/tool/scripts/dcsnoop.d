/*
 * tool dcsnoop: lookups of names in the directory cache
 * option -a --all: also lookups that find the name
 * option -p --pid NUMBER = 0: only this process
 * column TIME (s): time since the start
 * column PID: process ID
 * column COMM: name of the process
 * column T: R: a lookup, M: one that the cache lacks
 * column FILE: the name, of one directory
 * needs: kernel feature kprobes
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%-10s %-8s %-16s %s %s\n", "TIME(s)", "PID", "COMM", "T", "FILE");
}

fbt::lookup_fast:entry
/ALL && (PID == 0 || pid == PID)/
{
	this->name = ((struct nameidata *)arg0)->last.name;
	printf("%3d.%06d %-8d %-16s R %s\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, pid, execname, stringof(this->name));
}

fbt::d_lookup:entry
/PID == 0 || pid == PID/
{
	self->name = ((struct qstr *)arg1)->name;
}

fbt::d_lookup:return
/self->name && arg1 == 0/
{
	printf("%3d.%06d %-8d %-16s M %s\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, pid, execname, stringof(self->name));
}

fbt::d_lookup:return
{
	self->name = 0;
}
