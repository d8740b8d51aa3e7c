package process

import (
	"encoding/binary"
	"strconv"

	"culprit/kernel/netlink"

	"golang.org/x/sys/unix"
)

// Constants of include/uapi/linux/unix_diag.h.
const (
	unixDiagRequest = 24 // struct unix_diag_req
	unixDiagHeader  = 16 // struct unix_diag_msg: the inode is at 4
	unixShowPeer    = 1 << 2
	unixPeer        = 2 // u32 inode
	sockDiagFamily  = 20
	// mostUnixPeers is how many sockets are kept.
	mostUnixPeers = 65536
)

// unixPeers returns the peers of connected AF_UNIX sockets of culprit's network namespace, by links
// of open files. Nil when they cannot be read.
func unixPeers() map[string]string {
	c, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, netlink.Options{})
	if err != nil {
		return nil
	}
	defer c.Close()
	var q netlink.Request
	q.Begin(sockDiagFamily, 0)
	b := q.Extend(unixDiagRequest)
	b[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(b[4:], 1<<32-1)
	binary.NativeEndian.PutUint32(b[12:], unixShowPeer)
	var peers map[string]string
	restart := func() { peers = map[string]string{} }
	restart()
	err = c.DumpRetry(&q, 3, restart, func(_ uint16, b []byte) error {
		if socket, peer := parseUnixPeer(b); peer != 0 && len(peers) < mostUnixPeers {
			peers[socketLink(socket)] = socketLink(peer)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return peers
}

// parseUnixPeer parses a message of unix_diag; peer is 0 for a socket that is not connected.
//
//	0      1    2     3   4     8        16
//	|family|type|state|pad|inode|cookie 8| attributes
func parseUnixPeer(b []byte) (socket, peer uint32) {
	if len(b) < unixDiagHeader || b[0] != unix.AF_UNIX {
		return 0, 0
	}
	socket = binary.NativeEndian.Uint32(b[4:])
	for a := netlink.AttrsOf(b[unixDiagHeader:]); a.Next(); {
		if v := a.Value(); a.Type() == unixPeer && len(v) >= 4 {
			peer = binary.NativeEndian.Uint32(v)
		}
	}
	return socket, peer
}

func socketLink(inode uint32) string {
	return "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
}
