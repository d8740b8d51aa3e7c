// Package listen listens on TCP addresses and unix sockets for a server. It limits connections,
// those of strangers apart, and accepts peers of a socket by their user.
package listen
