// Package load is the network load test: a server, a client, and between them one TCP connection that says what to do and others that
// carry traffic. A stream moves bytes as fast as it can, or as fast as it was told; request and response measure each transaction. It says what
// the traffic cost at both ends, what share of the link it took, and what limited it.
//
// It sends nothing to anybody who has not shown the server's token, unless the server was told to be open, and nothing that was not asked for by
// the end at the other side of the same connections. It traces nothing and reads no counters of the kernel but those of its own sockets
// and threads: what else it tells of a machine comes in as a Machine.
package load
