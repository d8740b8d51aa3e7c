/*
 * tool biotop: processes by their disk requests
 * option -r --maxrows NUMBER = 20: most rows of an output
 * operand INTERVAL interval = 1: seconds between outputs
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column PID: process that was on the CPU when the request began
 * column COMM: its name
 * column D: R: read, W: write
 * column DISK: name of the disk
 * column I/O: requests
 * column KBYTES (KiB): size
 * column AVGus (us): mean latency
 * needs: tracepoints block_rq_issue and block_rq_complete
 */
#pragma D option quiet
#pragma D option aggsortpos=1
#pragma D option aggsortrev

#define TEXT(N) #N
#define NUMBER(N) TEXT(N)

BEGIN
{
	setopt("aggrows", NUMBER(MAXROWS));
}

int over;

io:::start
{
	began[args[0]->b_edev, args[0]->b_blkno] = timestamp;
	who[args[0]->b_edev, args[0]->b_blkno] = pid;
	name[args[0]->b_edev, args[0]->b_blkno] = execname;
	size[args[0]->b_edev, args[0]->b_blkno] = args[0]->b_bcount;
}

io:::done
/began[args[0]->b_edev, args[0]->b_blkno]/
{
	this->pid = who[args[0]->b_edev, args[0]->b_blkno];
	this->name = name[args[0]->b_edev, args[0]->b_blkno];
	this->way = args[0]->b_flags & B_READ ? "R" : "W";
	@bytes[this->pid, this->name, this->way, args[1]->dev_statname] =
	    sum(size[args[0]->b_edev, args[0]->b_blkno]);
	@n[this->pid, this->name, this->way, args[1]->dev_statname] = count();
	@us[this->pid, this->name, this->way, args[1]->dev_statname] =
	    avg((timestamp - began[args[0]->b_edev, args[0]->b_blkno]) / 1000);
	began[args[0]->b_edev, args[0]->b_blkno] = 0;
	who[args[0]->b_edev, args[0]->b_blkno] = 0;
	name[args[0]->b_edev, args[0]->b_blkno] = NULL;
	size[args[0]->b_edev, args[0]->b_blkno] = 0;
}

tick-INTERVAL, END
/!over/
{
	printf("%-8s %-16s %s %-8s %8s %10s %10s\n", "PID", "COMM", "D", "DISK", "I/O", "KBYTES",
	    "AVGus");
	normalize(@bytes, 1024);
	printa("%-8d %-16s %s %-8s %@8d %@10d %@10d\n", @n, @bytes, @us);
	trunc(@bytes);
	trunc(@n);
	trunc(@us);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
