/*
 * tool dbslower: queries of PostgreSQL that take long
 * option -p --pid NUMBER = 0: only this server process
 * option -m --threshold NUMBER = 1 ms: shorter queries are not shown
 * operand FILE WORD: the program postgres, as /usr/lib/postgresql/15/bin/postgres
 * column TIME (s): time since the start
 * column PID: server process
 * column LAT (ms): time of the query
 * column QUERY: its text
 * needs: uprobes, a PostgreSQL with USDT probes (--enable-dtrace, as Debian's)
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%-10s %-8s %10s %s\n", "TIME(s)", "PID", "LAT(ms)", "QUERY");
}

usdt:FILE:postgresql:query__start
/PID == 0 || pid == PID/
{
	self->t = timestamp;
}

usdt:FILE:postgresql:query__done
/self->t && timestamp - self->t >= THRESHOLD * 1000000/
{
	this->lat = timestamp - self->t;
	printf("%3d.%06d %-8d %6d.%03d %s\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, pid, this->lat / 1000000,
	    this->lat / 1000 % 1000, copyinstr(arg0));
}

usdt:FILE:postgresql:query__done
{
	self->t = 0;
}
