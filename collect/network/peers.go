package network

import (
	"fmt"

	"culprit/collect"
	"culprit/kernel/netlink"

	"golang.org/x/sys/unix"
)

// peers knows which namespace is meant by the numbers that another gives it: IFLA_LINK_NETNSID of a veth whose peer, or a VLAN
// whose lower device, is elsewhere. Only namespaces that are looked at can be told.
type peers struct {
	known      map[int32]*devices // by number; nil value: not one of those looked at
	generation int
	ask        netlink.Request
	id         int32
	onID       func(uint16, []byte) error
}

// siocGSKNS gives a file of the namespace of a socket (SIOCGSKNS, since 4.9); it needs CAP_NET_ADMIN in it.
const siocGSKNS = 0x894c

// relate finds for each device the one below it or at its other end, and counts the devices on top of each.
func (n *netDevices) relate(list []*collect.Namespace[*devices]) {
	for _, s := range list {
		for _, l := range s.Data.order {
			l.uppers, l.below, l.belowIn = 0, nil, nil
		}
	}
	for _, s := range list {
		d := s.Data
		for _, l := range d.order {
			index := max(l.lower, l.over) // no device has both
			if index == 0 {
				continue
			}
			at := d
			if l.lowerNS != -1 {
				at = d.peers.find(d, l.lowerNS, list, n.spaces.Generation)
			}
			if at == nil {
				continue
			}
			l.belowIn, l.below = at, at.links[index]
			if l.below != nil && !l.pair() && l.over == 0 { // a VXLAN's packets go through the IP stack to it: it is no port of that device
				l.below.uppers++
			}
		}
	}
}

// pair says whether the lower device is not below but at the other end of a cable.
func (f *linkFacts) pair() bool { return f.kind == "veth" || f.kind == "netkit" || f.kind == "vxcan" }

// find gives the namespace that d calls id, nil when it is not among those in list.
func (p *peers) find(d *devices, id int32, list []*collect.Namespace[*devices], generation int) *devices {
	if p.generation != generation || p.known == nil {
		p.known, p.generation = map[int32]*devices{}, generation
	}
	if found, ok := p.known[id]; ok {
		return found
	}
	p.known[id] = nil
	if len(list) < 2 {
		return nil
	}
	if p.onID == nil {
		p.onID = p.takeID
	}
	for _, s := range list {
		if s.Data == d || s.Data.tools.fd < 0 {
			continue
		}
		fd, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(s.Data.tools.fd), siocGSKNS, 0)
		if e != 0 {
			continue
		}
		p.ask.Begin(unix.RTM_GETNSID, 0)
		p.ask.Extend(1) // struct rtgenmsg
		p.ask.AttrUint32(unix.NETNSA_FD, uint32(fd))
		p.id = unix.NETNSA_NSID_NOT_ASSIGNED
		err := d.routes.Get(&p.ask, p.onID)
		unix.Close(int(fd))
		if err == nil && p.id >= 0 {
			p.known[p.id] = s.Data
		}
	}
	return p.known[id]
}

func (p *peers) takeID(typ uint16, payload []byte) error {
	if typ != unix.RTM_NEWNSID || len(payload) < 4 {
		return nil
	}
	for a := netlink.AttrsOf(payload[4:]); a.Next(); {
		if a.Type() == unix.NETNSA_NSID {
			p.id = int32(a.Int())
		}
	}
	return nil
}

// lowerName gives the name of the device below. One in another namespace has an @ and that namespace's name behind it, or ?
// where that is not among those looked at.
func (d *devices) lowerName(l *link) string {
	switch {
	case l.lower == 0:
		return ""
	case l.lowerNS == -1:
		return d.nameOf(l.lower)
	case l.below != nil:
		return l.below.name + "@" + l.belowIn.space.Name
	}
	return fmt.Sprintf("if%d@?", l.lower)
}
