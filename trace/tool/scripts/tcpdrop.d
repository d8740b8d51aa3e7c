/*
 * tool tcpdrop: TCP packets that the kernel drops, with the reason and the kernel's stack
 * column TIME (s): time since the start
 * column PID: process that was on the CPU
 * column SADDR: address of the sender
 * column DADDR: address of the receiver
 * column REASON: number of the reason (enum skb_drop_reason)
 * needs: tracepoint kfree_skb with a reason (Linux 5.17)
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%-10s %-8s %-22s %-22s %s\n", "TIME(s)", "PID", "SADDR:SPORT", "DADDR:DPORT", "REASON");
}

sdt:skb::kfree_skb
/args[2] > SKB_DROP_REASON_NOT_SPECIFIED && args[0]->protocol == 8 &&
 ((struct iphdr *)(args[0]->head + args[0]->network_header))->protocol == 6/
{
	this->ip = (struct iphdr *)(args[0]->head + args[0]->network_header);
	this->tcp = (struct tcphdr *)((uintptr_t)this->ip + this->ip->ihl * 4);
	printf("%3d.%06d %-8d %s:%d %s:%d %d\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, pid, inet_ntoa(&this->ip->saddr),
	    ntohs(this->tcp->source), inet_ntoa(&this->ip->daddr), ntohs(this->tcp->dest), args[2]);
	stack();
	printf("\n");
}
