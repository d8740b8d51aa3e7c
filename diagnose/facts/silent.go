package facts

import "slices"

// SilentPeer is the subject of a finding about a peer that acknowledges nothing.
type SilentPeer struct {
	NetNS, Peer string
	Ports       []string // of the peer, one per connection
}

// OnlyPort reports whether all connections are to one port.
func (s SilentPeer) OnlyPort(port string) bool {
	return !slices.ContainsFunc(s.Ports, func(p string) bool { return p != port })
}
