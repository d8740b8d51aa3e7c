package network

import (
	"fmt"

	"culprit/collect"
	"culprit/kernel/netlink"

	"golang.org/x/sys/unix"
)

// peers maps the numbers by which one namespace refers to others: IFLA_LINK_NETNSID of a veth with
// its peer, or a VLAN with its lower device, in another namespace. It finds only namespaces that
// are read.
type peers struct {
	known      map[int32]*devices // by number; nil value: not read
	generation int
	ask        netlink.Request
	id         int32
	onID       func(uint16, []byte) error
}

// siocGSKNS is the ioctl for a file of the namespace of a socket (SIOCGSKNS, since Linux 4.9). It
// needs CAP_NET_ADMIN in it.
const siocGSKNS = 0x894c

// relate finds for each device the one below it or at its other end, and counts the devices on top
// of each.
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
			// a VXLAN's packets reach it through the IP stack: it is not a port of that device
			if l.below != nil && !l.pair() && l.over == 0 {
				l.below.uppers++
			}
		}
	}
}

// pair reports whether the lower device is not below but at the other end of a cable.
func (f *linkFacts) pair() bool {
	return f.kind == "veth" || f.kind == "netkit" || f.kind == "vxcan"
}

// find returns the namespace with d's number id, nil if it is not in list.
func (p *peers) find(
	d *devices, id int32, list []*collect.Namespace[*devices], generation int,
) *devices {
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

// lowerName returns the name of the device below. If that is in another namespace, an @ and the
// namespace's name follow, or ? if that is not read.
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
