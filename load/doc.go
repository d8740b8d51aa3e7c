// Package load is the network load test: a server, a client, one TCP connection for control and
// others for traffic. A stream sends as fast as possible or at a given rate. Request and response
// measure each transaction. The result contains the cost of the traffic at both ends, its share of
// the link, and its limit.
//
// Both ends send traffic only over connections of a test, and only as its peer requested. The
// server requires its token, unless it is open. The package reads counters of its own sockets and
// threads only: other facts about a machine come from a Machine.
package load
