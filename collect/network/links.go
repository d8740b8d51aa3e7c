package network

import (
	"encoding/binary"
	"fmt"
	"sort"
	"strconv"

	"culprit/kernel/netlink"

	"golang.org/x/sys/unix"
)

// native is the byte order of the kernel's binary structures.
var native = binary.NativeEndian

// link is one network device in its namespace. Its facts come from RTM_NEWLINK (rtnetlink(7)) and
// stay until an event announces a change. Its counters come with each reading.
type link struct {
	linkFacts
	round uint32 // of the last dump that had it
	linkGrowth
	linkLower

	root   *qdisc  // the root queueing discipline; nil: none, or one that does not count
	shaped float64 // bit/s that the disciplines let through at most; 0: no bound

	tool          *ethtool // what ethtool reports; nil: nothing
	exceededSpeed bool     // it carried more than the speed of ethtool

	epoch  int // of the labels below; they are valid while it is out.Epoch
	ns     label
	device label
	info   []label // of net.device.info; empty: must be made again
}

// linkLower is what carries the packets of a device.
type linkLower struct {
	// the lower device, the other end of the pair, or what a VXLAN sends over; nil: none, or in a
	// namespace that is not read
	below   *link
	belowIn *devices // the namespace of below
	uppers  int      // devices on top of this one
}

// linkFacts has the attributes of RTM_NEWLINK.
type linkFacts struct {
	index    int32
	arphrd   uint16 // hardware type, ARPHRD_* of if_arp.h: 1 Ethernet, 772 loopback, 65534 none
	name     string
	kind     string // IFLA_INFO_KIND: veth, bridge, vlan ...; "" for hardware and loopback
	slave    string // IFLA_INFO_SLAVE_KIND: what the master is: bridge, bond, vrf
	mac      string // aa:bb:cc:dd:ee:ff; "" if it has none
	mtu      uint32
	rxQueues uint32
	txQueues uint32
	xdp      bool
	linkState
	linkRelations
}

type linkState struct {
	flags       uint32 // IFF_* of if.h
	operstate   uint8  // IF_OPER_*, RFC 2863
	promiscuity uint32
	carrier     uint64 // changes so far
	hasCarrier  bool   // the kernel counts them (since Linux 4.16)
}

// linkRelations has the indices of related devices; 0: none.
type linkRelations struct {
	master int32 // in the same namespace
	lower  int32 // the device below, the peer for veth
	over   int32 // the device that a VXLAN sends over (IFLA_VXLAN_LINK)
	// namespace of lower and over, as an id of this one (IFLA_LINK_NETNSID); -1: the same
	lowerNS int32
}

// parseLink parses the payload of an RTM_NEWLINK or RTM_DELLINK message: struct ifinfomsg and
// attributes. f has the earlier facts of the device, or is zero. Strings are allocated only if they
// changed. If stats is not nil it receives IFLA_STATS64; hasStats reports whether the message has
// it.
func parseLink(
	payload []byte, f *linkFacts, stats *[linkCounters]uint64,
) (hasStats bool, err error) {
	if len(payload) < unix.SizeofIfInfomsg {
		return false, fmt.Errorf("link message of %d bytes: %w", len(payload), errShort)
	}
	name, kind, slave, mac := f.name, f.kind, f.slave, f.mac
	*f = linkFacts{arphrd: native.Uint16(payload[2:]), index: int32(native.Uint32(payload[4:]))}
	f.flags, f.lowerNS = native.Uint32(payload[8:]), -1
	a := netlink.AttrsOf(payload[unix.SizeofIfInfomsg:])
	for a.Next() {
		switch a.Type() {
		case unix.IFLA_IFNAME:
			f.name = keep(name, a.Text())
		case unix.IFLA_ADDRESS:
			var buf [3 * 32]byte
			f.mac = keep(mac, appendMAC(buf[:0], a.Value()))
		case unix.IFLA_MTU:
			f.mtu = uint32(a.Uint())
		case unix.IFLA_MASTER:
			f.master = int32(a.Uint())
		case unix.IFLA_LINK:
			f.lower = int32(a.Uint())
		case unix.IFLA_LINK_NETNSID:
			f.lowerNS = int32(a.Int())
		case unix.IFLA_OPERSTATE:
			f.operstate = uint8(a.Uint())
		case unix.IFLA_PROMISCUITY:
			f.promiscuity = uint32(a.Uint())
		case unix.IFLA_NUM_RX_QUEUES:
			f.rxQueues = uint32(a.Uint())
		case unix.IFLA_NUM_TX_QUEUES:
			f.txQueues = uint32(a.Uint())
		case unix.IFLA_CARRIER_CHANGES:
			f.carrier, f.hasCarrier = a.Uint(), true
		case unix.IFLA_STATS64:
			if stats != nil {
				copyStats(stats, a.Value())
				hasStats = true
			}
		case unix.IFLA_XDP:
			for x := a.Nested(); x.Next(); {
				if x.Type() == unix.IFLA_XDP_ATTACHED {
					f.xdp = x.Uint() != 0
				}
			}
		case unix.IFLA_LINKINFO:
			for i := a.Nested(); i.Next(); {
				switch i.Type() {
				case unix.IFLA_INFO_KIND:
					f.kind = keep(kind, i.Text())
				case unix.IFLA_INFO_SLAVE_KIND:
					f.slave = keep(slave, i.Text())
				case unix.IFLA_INFO_DATA: // after the kind (rtnl_link_info_fill)
					if f.kind == "vxlan" {
						for x := i.Nested(); x.Next(); {
							if x.Type() == unix.IFLA_VXLAN_LINK {
								f.over = int32(x.Uint())
							}
						}
					}
				}
			}
		}
	}
	if f.lower == f.index && f.lowerNS == -1 {
		f.lower = 0 // tunnels without a lower device name themselves
	}
	if f.index <= 0 || f.name == "" {
		return hasStats, fmt.Errorf("link message without index or name: %w", errShort)
	}
	return hasStats, a.Err()
}

// keep returns old if it equals b, so that an unchanged string is not allocated again.
func keep(old string, b []byte) string {
	if old == string(b) {
		return old
	}
	return string(b)
}

// appendMAC appends a hardware address in hexadecimal with colons. Infiniband's has 20 bytes;
// longer ones are cut at 32.
func appendMAC(dst, b []byte) []byte {
	const digits = "0123456789abcdef"
	for i, c := range b[:min(len(b), 32)] {
		if i > 0 {
			dst = append(dst, ':')
		}
		dst = append(dst, digits[c>>4], digits[c&15])
	}
	return dst
}

// kindWord returns the device's kind: the kernel's, with tap separate from tun, or another name if
// the kernel has none.
func (f *linkFacts) kindWord() string {
	switch f.kind {
	case "":
	case "tun":
		if f.arphrd == unix.ARPHRD_ETHER {
			return "tap"
		}
		return "tun"
	default:
		return f.kind
	}
	switch f.arphrd {
	case unix.ARPHRD_LOOPBACK:
		return "loopback"
	case unix.ARPHRD_ETHER:
		return "ethernet"
	case unix.ARPHRD_INFINIBAND:
		return "infiniband"
	case unix.ARPHRD_PPP:
		return "ppp"
	case unix.ARPHRD_TUNNEL,
		unix.ARPHRD_TUNNEL6,
		unix.ARPHRD_SIT,
		unix.ARPHRD_IPGRE,
		unix.ARPHRD_IP6GRE:
		return "tunnel"
	case unix.ARPHRD_IEEE80211, unix.ARPHRD_IEEE80211_PRISM, unix.ARPHRD_IEEE80211_RADIOTAP:
		return "wireless"
	}
	return "type-" + strconv.Itoa(int(f.arphrd))
}

// ethernet reports whether frames of the device would have preamble, gap and FCS on a wire.
func (f *linkFacts) ethernet() bool { return f.arphrd == unix.ARPHRD_ETHER }

func (f *linkFacts) up() bool { return f.flags&unix.IFF_UP != 0 }

// operWord returns an operational state in ip(8)'s spelling, in lower case.
func operWord(state uint8) string {
	words := [...]string{
		"unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up",
	}
	if int(state) < len(words) {
		return words[state]
	}
	return "unknown"
}

// flagWords returns the flags in ip(8)'s order. UP is also in the field admin, but stays here
// because users look for "UP,LOWER_UP".
func flagWords(flags uint32) string {
	words := [...]struct {
		bit  uint32
		word string
	}{
		{unix.IFF_LOOPBACK, "LOOPBACK"},
		{unix.IFF_BROADCAST, "BROADCAST"},
		{unix.IFF_POINTOPOINT, "POINTOPOINT"},
		{unix.IFF_MULTICAST, "MULTICAST"},
		{unix.IFF_NOARP, "NOARP"},
		{unix.IFF_ALLMULTI, "ALLMULTI"},
		{unix.IFF_PROMISC, "PROMISC"},
		{unix.IFF_MASTER, "MASTER"},
		{unix.IFF_SLAVE, "SLAVE"},
		{unix.IFF_DEBUG, "DEBUG"},
		{unix.IFF_DYNAMIC, "DYNAMIC"},
		{unix.IFF_UP, "UP"},
		{unix.IFF_LOWER_UP, "LOWER_UP"},
		{unix.IFF_DORMANT, "DORMANT"},
	}
	var buf [160]byte
	b := buf[:0]
	for _, w := range words {
		if flags&w.bit != 0 {
			if len(b) > 0 {
				b = append(b, ',')
			}
			b = append(b, w.word...)
		}
	}
	return string(b)
}

// address is one IP address of a device, from RTM_NEWADDR.
type address struct {
	index  int32
	family uint8
	prefix uint8
	scope  uint8 // RT_SCOPE_*
	text   string
}

// familyWord returns inet or inet6.
func (a *address) familyWord() string {
	if a.family == unix.AF_INET6 {
		return "inet6"
	}
	return "inet"
}

// scopeWord returns the scope in ip(8)'s spelling.
func (a *address) scopeWord() string {
	switch a.scope {
	case unix.RT_SCOPE_UNIVERSE:
		return "global"
	case unix.RT_SCOPE_SITE:
		return "site"
	case unix.RT_SCOPE_LINK:
		return "link"
	case unix.RT_SCOPE_HOST:
		return "host"
	}
	return strconv.Itoa(int(a.scope))
}

func sortLinks(list []*link) {
	sort.Slice(list, func(i, j int) bool { return list[i].index < list[j].index })
}
