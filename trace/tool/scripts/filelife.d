/*
 * tool filelife: files that are created and removed while the tool runs
 * option -p --pid NUMBER = 0: only files that this process removes
 * column TIME (s): time since the start
 * column PID: process that removes the file
 * column COMM: its name
 * column AGE (ms): time between creation and removal
 * column FILE: the name in its directory
 * needs: kernel feature kprobes
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%-10s %-8s %-16s %-10s %s\n", "TIME(s)", "PID", "COMM", "AGE(ms)", "FILE");
}

fbt::security_inode_create:entry
{
	born[arg1] = timestamp;
}

fbt::security_inode_unlink:entry
/born[arg1] && (PID == 0 || pid == PID)/
{
	printf("%3d.%06d %-8d %-16s %6d.%03d %s\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, pid, execname,
	    (timestamp - born[arg1]) / 1000000, (timestamp - born[arg1]) / 1000 % 1000,
	    stringof(args[1]->d_name.name));
}

fbt::security_inode_unlink:entry
/born[arg1]/
{
	born[arg1] = 0;
}
