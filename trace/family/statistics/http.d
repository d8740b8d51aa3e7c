/*
 * Requests of HTTP/1 without TLS, as programs send and receive them. A request begins with its
 * method, an answer with HTTP/1; each is recognized where a call that reads or writes a TCP socket
 * begins with one. The time is from the start of a request to the start of its answer, as the
 * program sees it: a client's includes the network, a server's does not.
 * Interim answers (100 to 199) do not count. Of requests that are sent before the answer to the
 * previous one, only the last is timed. Calls by io_uring and sendfile are not seen.
 *
 * statistic http.request.count delta event by netns side peer port process pid: requests of HTTP/1
 *     without TLS that programs sent, or received as a server (syscalls:sys_enter_write,
 *     sys_exit_read and similar)
 * statistic http.answer.count delta event by netns side peer port process pid status: answers to
 *     them (syscalls:sys_enter_write, sys_exit_read and similar)
 * statistic http.answer.time delta ns by netns side peer port process pid status: time from the
 *     start of requests to the start of their answers, counted when they are answered
 *     (syscalls:sys_enter_write, sys_exit_read and similar)
 * statistic http.answer.latency dist ns by netns side peer port process pid status: how long
 *     answers took, from the start of the request to the start of the answer, to a quarter of each
 *     power of two (syscalls:sys_enter_write, sys_exit_read and similar)
 * field netns word of netns: network namespace of the socket; "" is culprit's own
 * field side word of side: client, or server, of which the process is
 * field peer word: address of the other end
 * field port number: port of the server
 * field process word: name of the thread
 * field pid number: its process ID
 * field status number: of the answer, such as 200 or 503
 */
inline uint32_t ANSWER = 0x50545448; /* the first bytes, little-endian: HTTP, then methods */
inline uint32_t GET = 0x20544547;
inline uint32_t POST = 0x54534f50;
inline uint32_t PUT = 0x20545550;
inline uint32_t HEAD = 0x44414548;
inline uint32_t DELETE = 0x454c4544;
inline uint32_t PATCH = 0x43544150;
inline uint32_t OPTIONS = 0x4954504f;

/* The address of the first bytes that are written. The calls share their clauses, so that they are
 * one program: the kernel runs each program at each system call of the machine. */
syscall::write:entry, syscall::sendto:entry, syscall::writev:entry, syscall::sendmsg:entry
{
	this->at = arg1;
	this->size = arg2;
}
syscall::write:entry, syscall::sendto:entry, syscall::writev:entry, syscall::sendmsg:entry
/probefunc == "sendmsg"/
{
	this->message = (struct user_msghdr *)copyin(arg1, sizeof(struct user_msghdr));
	this->at = (uintptr_t)this->message->msg_iov;
}
syscall::write:entry, syscall::sendto:entry, syscall::writev:entry, syscall::sendmsg:entry
/probefunc == "sendmsg" || probefunc == "writev"/
{
	this->part = (struct iovec *)copyin(this->at, sizeof(struct iovec));
	this->at = (uintptr_t)this->part->iov_base;
	this->size = this->part->iov_len;
}
syscall::write:entry, syscall::sendto:entry, syscall::writev:entry, syscall::sendmsg:entry
/this->at && this->size >= 12/
{
	this->head = *(uint32_t *)copyin(this->at, 4);
	this->kind = this->head == ANSWER ? 2 : this->head == GET || this->head == POST ||
	    this->head == PUT || this->head == HEAD || this->head == DELETE ||
	    this->head == PATCH || this->head == OPTIONS;
}
syscall::write:entry, syscall::sendto:entry, syscall::writev:entry, syscall::sendmsg:entry
/this->kind/
{
	this->file = ((struct task_struct *)curthread)->files->fdt->fd[arg0];
	this->sk = (this->file->f_inode->i_mode & 0170000) == 0140000 ? /* S_IFSOCK */
	    ((struct socket *)this->file->private_data)->sk : 0;
	this->kind = this->sk && this->sk->sk_protocol == IPPROTO_TCP ? this->kind : 0;
}
/* The address is made once: the kernel checks the code that makes it, wherever it stands. */
syscall::write:entry, syscall::sendto:entry, syscall::writev:entry, syscall::sendmsg:entry
/this->kind/ {
	this->peer = xlate<tcpsinfo_t *>(this->sk)->tcps_raddr;
	this->net = this->sk->__sk_common.skc_net.net->ns.inum;
}

/* A client asks. */
syscall::write:entry, syscall::sendto:entry, syscall::writev:entry, syscall::sendmsg:entry
/this->kind == 1/ {
	began[(uintptr_t)this->sk] = timestamp;
	@http_request_count[this->net, 0, this->peer,
	    xlate<tcpsinfo_t *>(this->sk)->tcps_rport, execname, pid] = count();
}

/* A server answers. */
syscall::write:entry, syscall::sendto:entry, syscall::writev:entry, syscall::sendmsg:entry
/this->kind == 2 && began[(uintptr_t)this->sk]/ {
	this->code = (char *)copyin(this->at + 9, 3);
	this->status = 100 * (this->code[0] - '0') + 10 * (this->code[1] - '0') +
	    this->code[2] - '0';
}
syscall::write:entry, syscall::sendto:entry, syscall::writev:entry, syscall::sendmsg:entry
/this->status >= 200/ {
	@http_answer_count[this->net, 1, this->peer,
	    xlate<tcpsinfo_t *>(this->sk)->tcps_lport, execname, pid, this->status] = count();
	@http_answer_time[this->net, 1, this->peer,
	    xlate<tcpsinfo_t *>(this->sk)->tcps_lport, execname, pid, this->status] =
	    sum(timestamp - began[(uintptr_t)this->sk]);
	@http_answer_latency[this->net, 1, this->peer,
	    xlate<tcpsinfo_t *>(this->sk)->tcps_lport, execname, pid, this->status] =
	    llquantize(timestamp - began[(uintptr_t)this->sk], 2, 5, 40, 8);
	began[(uintptr_t)this->sk] = 0;
}

/* Where the bytes that a socket receives will be. MSG_PEEK (2) leaves them in the socket. */
syscall::read:entry, syscall::recvfrom:entry, syscall::readv:entry, syscall::recvmsg:entry
{
	this->file = ((struct task_struct *)curthread)->files->fdt->fd[arg0];
	this->sk = (this->file->f_inode->i_mode & 0170000) == 0140000 ? /* S_IFSOCK */
	    ((struct socket *)this->file->private_data)->sk : 0;
}
syscall::read:entry, syscall::recvfrom:entry, syscall::readv:entry, syscall::recvmsg:entry
/this->sk && this->sk->sk_protocol == IPPROTO_TCP && !(probefunc == "recvfrom" && arg3 & 2) &&
    !(probefunc == "recvmsg" && arg2 & 2)/
{
	self->sk = this->sk;
	self->to = arg1;
	self->parts = probefunc == "readv" ? arg1 : probefunc == "recvmsg" ?
	    (uintptr_t)((struct user_msghdr *)copyin(arg1, sizeof(struct user_msghdr)))->msg_iov : 0;
}
syscall::read:return, syscall::recvfrom:return, syscall::readv:return, syscall::recvmsg:return
/self->sk && (int64_t)arg1 >= 12/
{
	this->at = self->parts ?
	    (uintptr_t)((struct iovec *)copyin(self->parts, sizeof(struct iovec)))->iov_base : self->to;
	this->head = *(uint32_t *)copyin(this->at, 4);
	this->kind = this->head == ANSWER ? 2 : this->head == GET || this->head == POST ||
	    this->head == PUT || this->head == HEAD || this->head == DELETE ||
	    this->head == PATCH || this->head == OPTIONS;
}
syscall::read:return, syscall::recvfrom:return, syscall::readv:return, syscall::recvmsg:return
/this->kind/ {
	this->peer = xlate<tcpsinfo_t *>(self->sk)->tcps_raddr;
	this->net = self->sk->__sk_common.skc_net.net->ns.inum;
}

/* A server is asked. */
syscall::read:return, syscall::recvfrom:return, syscall::readv:return, syscall::recvmsg:return
/this->kind == 1/ {
	began[(uintptr_t)self->sk] = timestamp;
	@http_request_count[this->net, 1, this->peer,
	    xlate<tcpsinfo_t *>(self->sk)->tcps_lport, execname, pid] = count();
}

/* A client is answered. */
syscall::read:return, syscall::recvfrom:return, syscall::readv:return, syscall::recvmsg:return
/this->kind == 2 && began[(uintptr_t)self->sk]/ {
	this->code = (char *)copyin(this->at + 9, 3);
	this->status = 100 * (this->code[0] - '0') + 10 * (this->code[1] - '0') +
	    this->code[2] - '0';
}
syscall::read:return, syscall::recvfrom:return, syscall::readv:return, syscall::recvmsg:return
/this->status >= 200/ {
	@http_answer_count[this->net, 0, this->peer,
	    xlate<tcpsinfo_t *>(self->sk)->tcps_rport, execname, pid, this->status] = count();
	@http_answer_time[this->net, 0, this->peer,
	    xlate<tcpsinfo_t *>(self->sk)->tcps_rport, execname, pid, this->status] =
	    sum(timestamp - began[(uintptr_t)self->sk]);
	@http_answer_latency[this->net, 0, this->peer,
	    xlate<tcpsinfo_t *>(self->sk)->tcps_rport, execname, pid, this->status] =
	    llquantize(timestamp - began[(uintptr_t)self->sk], 2, 5, 40, 8);
	began[(uintptr_t)self->sk] = 0;
}
syscall::read:return, syscall::recvfrom:return, syscall::readv:return, syscall::recvmsg:return
/self->sk/ { self->sk = 0; self->to = 0; self->parts = 0; }
