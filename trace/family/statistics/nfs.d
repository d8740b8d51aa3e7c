/*
 * Requests that an NFS server of this kernel answers. All operations of a version 4 client are
 * reported as COMPOUND.
 *
 * statistic nfs.server.latency dist ns by client operation version: how long requests took from
 *     being read to being answered, to a quarter of each power of two (sunrpc:svc_stats_latency)
 * statistic nfs.server.count delta op by client operation version: requests that were answered
 *     (sunrpc:svc_stats_latency)
 * field client word: address of the client
 * field operation word: READ WRITE GETATTR LOOKUP ...; COMPOUND of version 4
 * field version number: of the protocol
 */
sdt:sunrpc::svc_stats_latency /args[0]->rq_prog == 100003/ {
	@nfs_server_latency[((struct sockaddr_in *)&args[0]->rq_addr)->sin_family == AF_INET ?
	    inet_ntoa(&((struct sockaddr_in *)&args[0]->rq_addr)->sin_addr.s_addr) :
	    inet_ntoa6(&((struct sockaddr_in6 *)&args[0]->rq_addr)->sin6_addr),
	    stringof(args[0]->rq_procinfo->pc_name), args[0]->rq_vers] =
	    llquantize(timestamp - args[0]->rq_stime, 2, 5, 40, 8);
	@nfs_server_count[((struct sockaddr_in *)&args[0]->rq_addr)->sin_family == AF_INET ?
	    inet_ntoa(&((struct sockaddr_in *)&args[0]->rq_addr)->sin_addr.s_addr) :
	    inet_ntoa6(&((struct sockaddr_in6 *)&args[0]->rq_addr)->sin6_addr),
	    stringof(args[0]->rq_procinfo->pc_name), args[0]->rq_vers] = count();
}
