package network

import (
	"net/netip"

	"culprit/kernel/netlink"

	"golang.org/x/sys/unix"
)

// parseAddress parses an RTM_NEWADDR message: struct ifaddrmsg (u8 family, prefix length, flags,
// scope, u32 index) and attributes. On a point-to-point device IFA_ADDRESS is the peer's address,
// so IFA_LOCAL counts if there is one.
func parseAddress(typ uint16, payload []byte) (a address, ok bool) {
	if typ != unix.RTM_NEWADDR || len(payload) < unix.SizeofIfAddrmsg {
		return a, false
	}
	a = address{
		family: payload[0],
		prefix: payload[1],
		scope:  payload[3],
		index:  int32(native.Uint32(payload[4:])),
	}
	var ip netip.Addr
	local := false
	for at := netlink.AttrsOf(payload[unix.SizeofIfAddrmsg:]); at.Next(); {
		switch at.Type() {
		case unix.IFA_LOCAL:
			ip, ok = netip.AddrFromSlice(at.Value())
			local = ok
		case unix.IFA_ADDRESS:
			if !local {
				ip, ok = netip.AddrFromSlice(at.Value())
			}
		}
	}
	if !ok || a.index <= 0 {
		return a, false
	}
	a.text = ip.String()
	return a, true
}
