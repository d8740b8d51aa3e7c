/*
 * tool tcprtt: round trip times of TCP as a distribution
 * option -m --milliseconds: in milliseconds, not microseconds
 * option -b --byladdr: by local address
 * option -B --byraddr: by remote address
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column value (us): smoothed round trip time, a power of two and more
 * column count: received segments
 * needs: tracepoint tcp_probe (Linux 4.16)
 */
#pragma D option quiet

int over;

sdt:tcp::tcp_probe
/((struct tcp_sock *)args[0])->srtt_us/
{
	@[BYLADDR ? (xlate <tcpsinfo_t> (args[0])).tcps_laddr :
	    BYRADDR ? (xlate <tcpsinfo_t> (args[0])).tcps_raddr : "all"] =
	    quantize((((struct tcp_sock *)args[0])->srtt_us >> 3) / (MILLISECONDS ? 1000 : 1));
}

tick-INTERVAL, END
/!over/
{
	printf("round trip time in %s\n", MILLISECONDS ? "ms" : "us");
	printa("address = %s%@d\n", @);
	trunc(@);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
