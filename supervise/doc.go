// Package supervise runs the processes of one program. The parent starts each of them from its own
// executable, starts one again after its death, and connects them in pairs by unix sockets.
package supervise
