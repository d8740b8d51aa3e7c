// Package netlink sends requests to the kernel over netlink and reads the answers into a buffer
// that is reused. It also finds and enters network namespaces, since a socket belongs to the one in
// which it was opened.
package netlink
