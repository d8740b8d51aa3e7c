/*
 * Lookups of names by UDP, as programs send them to port 53 and get their answers. Only the header
 * of a message is read, not the name. The time is from a query to its answer, as the program sees
 * it; an answer that comes when nobody has asked does not count. A call with several messages
 * (sendmmsg, recvmmsg) counts up to two queries and one answer. Queries without an answer yet are
 * kept in 4,096 places; where two have the same place, the answer to the older one does not count.
 * Lookups by TCP, TLS or HTTPS, and calls by io_uring, are not seen.
 *
 * statistic dns.query.count delta event by netns server process pid: queries that programs sent to
 *     port 53 by UDP (syscalls:sys_enter_sendto, sys_enter_write and similar)
 * statistic dns.answer.count delta event by netns server process pid code: answers to them
 *     (syscalls:sys_exit_recvfrom, sys_exit_read and similar)
 * statistic dns.answer.time delta ns by netns server process pid code: time from queries to their
 *     answers, counted when they are answered (syscalls:sys_exit_recvfrom, sys_exit_read and
 *     similar)
 * statistic dns.answer.latency dist ns by netns server process pid code: how long answers took,
 *     to a quarter of each power of two (syscalls:sys_exit_recvfrom, sys_exit_read and similar)
 * field netns word of netns: network namespace of the socket; "" is culprit's own
 * field server word: address of the name server
 * field process word: name of the thread
 * field pid number: its process ID
 * field code word of dnscode: of the answer: NOERROR, NXDOMAIN (there is no such name), SERVFAIL,
 *     REFUSED, FORMERR, NOTIMP, or its number
 */
inline uint16_t PORT = 0x3500; /* 53, in the order of the network */

syscall::write:entry, syscall::sendto:entry, syscall::sendmsg:entry, syscall::sendmmsg:entry
{
	this->file = ((struct task_struct *)curthread)->files->fdt->fd[arg0];
	this->sk = (this->file->f_inode->i_mode & 0170000) == 0140000 ? /* S_IFSOCK */
	    ((struct socket *)this->file->private_data)->sk : 0;
}
/* Where the first message is, and to whom it goes: a connected socket has one peer. */
syscall::write:entry, syscall::sendto:entry, syscall::sendmsg:entry, syscall::sendmmsg:entry
/this->sk && this->sk->sk_protocol == IPPROTO_UDP && this->sk->sk_type == 2/
{
	this->udp = 1;
	this->at = arg1;
	this->name = probefunc == "sendto" ? arg4 : 0;
	this->port = this->sk->__sk_common.skc_dport;
	this->server = xlate<udpsinfo_t *>(this->sk)->udps_raddr;
}
syscall::write:entry, syscall::sendto:entry, syscall::sendmsg:entry, syscall::sendmmsg:entry
/this->udp && (probefunc == "sendmsg" || probefunc == "sendmmsg")/
{
	this->message = (struct user_msghdr *)copyin(arg1, sizeof(struct user_msghdr));
	this->name = (uintptr_t)this->message->msg_name;
	this->part = (struct iovec *)copyin((uintptr_t)this->message->msg_iov, sizeof(struct iovec));
	this->at = (uintptr_t)this->part->iov_base;
}
syscall::write:entry, syscall::sendto:entry, syscall::sendmsg:entry, syscall::sendmmsg:entry
/this->udp && this->name/
{
	this->address = (struct sockaddr_in6 *)copyin(this->name, 28);
	this->port = this->address->sin6_port;
	this->server = this->address->sin6_family == AF_INET6 ?
	    inet_ntoa6(&this->address->sin6_addr) :
	    inet_ntoa(&((struct sockaddr_in *)this->address)->sin_addr.s_addr);
}
/* A query: the first bit behind its number is not set. The number and the socket of a lookup are
 * kept in a table of fixed size, so that nothing else stays of those that are never answered. */
syscall::write:entry, syscall::sendto:entry, syscall::sendmsg:entry, syscall::sendmmsg:entry
/this->udp && this->port == PORT && this->at/
{
	this->head = (uint8_t *)copyin(this->at, 4);
	this->query = (this->head[2] & 0x80) == 0;
	this->number = this->head[0] * 256 + this->head[1];
}
syscall::write:entry, syscall::sendto:entry, syscall::sendmsg:entry, syscall::sendmmsg:entry
/this->query/
{
	this->slot = (((uintptr_t)this->sk >> 6) + this->number) & 4095;
	asked[this->slot] = ((uintptr_t)this->sk << 16) + this->number;
	began[this->slot] = timestamp;
	server[this->slot] = this->server;
	@dns_query_count[this->sk->__sk_common.skc_net.net->ns.inum, this->server, execname, pid] =
	    count();
}
/* The second message of a call, as of the C library, which asks for both kinds of addresses. */
syscall::write:entry, syscall::sendto:entry, syscall::sendmsg:entry, syscall::sendmmsg:entry
/this->query && probefunc == "sendmmsg" && arg2 > 1/
{
	this->message = (struct user_msghdr *)copyin(arg1 + sizeof(struct mmsghdr),
	    sizeof(struct user_msghdr));
	this->part = (struct iovec *)copyin((uintptr_t)this->message->msg_iov, sizeof(struct iovec));
	this->head = (uint8_t *)copyin((uintptr_t)this->part->iov_base, 4);
	this->number = this->head[0] * 256 + this->head[1];
	this->slot = (((uintptr_t)this->sk >> 6) + this->number) & 4095;
	asked[this->slot] = ((uintptr_t)this->sk << 16) + this->number;
	began[this->slot] = timestamp;
	server[this->slot] = this->server;
	@dns_query_count[this->sk->__sk_common.skc_net.net->ns.inum, this->server, execname, pid] =
	    count();
}

/* Where an answer will be. MSG_PEEK (2) leaves it in the socket. */
syscall::read:entry, syscall::recvfrom:entry, syscall::recvmsg:entry, syscall::recvmmsg:entry
{
	this->file = ((struct task_struct *)curthread)->files->fdt->fd[arg0];
	this->sk = (this->file->f_inode->i_mode & 0170000) == 0140000 ? /* S_IFSOCK */
	    ((struct socket *)this->file->private_data)->sk : 0;
}
syscall::read:entry, syscall::recvfrom:entry, syscall::recvmsg:entry, syscall::recvmmsg:entry
/this->sk && this->sk->sk_protocol == IPPROTO_UDP && this->sk->sk_type == 2 &&
    (this->sk->__sk_common.skc_dport == PORT || this->sk->__sk_common.skc_dport == 0) &&
    !((probefunc == "recvfrom" || probefunc == "recvmmsg") && arg3 & 2) &&
    !(probefunc == "recvmsg" && arg2 & 2)/
{
	self->sk = this->sk;
	self->to = arg1;
}
/* The return value is a number of bytes; of recvmmsg it is one of messages. */
syscall::read:return, syscall::recvfrom:return, syscall::recvmsg:return, syscall::recvmmsg:return
/self->sk && (int64_t)arg1 >= (probefunc == "recvmmsg" ? 1 : 12)/
{
	this->at = self->to;
}
syscall::read:return, syscall::recvfrom:return, syscall::recvmsg:return, syscall::recvmmsg:return
/this->at && (probefunc == "recvmsg" || probefunc == "recvmmsg")/
{
	this->message = (struct user_msghdr *)copyin(this->at, sizeof(struct user_msghdr));
	this->part = (struct iovec *)copyin((uintptr_t)this->message->msg_iov, sizeof(struct iovec));
	this->at = (uintptr_t)this->part->iov_base;
}
syscall::read:return, syscall::recvfrom:return, syscall::recvmsg:return, syscall::recvmmsg:return
/this->at/
{
	this->head = (uint8_t *)copyin(this->at, 4);
	this->number = this->head[0] * 256 + this->head[1];
	this->slot = (((uintptr_t)self->sk >> 6) + this->number) & 4095;
	this->answer = (this->head[2] & 0x80) != 0 &&
	    asked[this->slot] == ((uintptr_t)self->sk << 16) + this->number;
	this->code = this->head[3] & 15;
	this->net = self->sk->__sk_common.skc_net.net->ns.inum;
}
syscall::read:return, syscall::recvfrom:return, syscall::recvmsg:return, syscall::recvmmsg:return
/this->answer/
{
	@dns_answer_count[this->net, server[this->slot], execname, pid, this->code] = count();
	@dns_answer_time[this->net, server[this->slot], execname, pid, this->code] =
	    sum(timestamp - began[this->slot]);
	@dns_answer_latency[this->net, server[this->slot], execname, pid, this->code] =
	    llquantize(timestamp - began[this->slot], 2, 5, 40, 8);
	asked[this->slot] = 0;
}
syscall::read:return, syscall::recvfrom:return, syscall::recvmsg:return, syscall::recvmmsg:return
/self->sk/ { self->sk = 0; self->to = 0; }
