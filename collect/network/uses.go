package network

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"culprit/collect"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// use is one kind of reason for a device to receive.
type use int

const (
	// its unicast addresses, except link-local ones, which every device has
	useAddress use = iota
	// routes out of it that were added: by hand, DHCP, a routing daemon, a router advertisement
	useRoute
	// routes that came with an address (protocol kernel)
	useConnected
	// hosts that were found on it
	useNeighbour
	// 1: it is a port of a bridge, bond, VRF ...
	useMaster
	// devices on top of it: VLAN, macvlan, tunnels bound to it; also in other namespaces that are
	// read
	useUpper
	// packet sockets for all protocols, bound to it or to all devices: tcpdump and similar
	usePacketSocket
	// packet sockets for one protocol: DHCP clients, LLDP daemons
	usePacketProtocol
	// listening TCP and any UDP sockets bound to it (SO_BINDTODEVICE)
	useBoundSocket
	// IPv4 multicast groups joined on it, except 224.0.0.1
	useMulticast
	// how often promiscuous mode was requested
	usePromiscuous
	// 1: an XDP program is attached
	useXDP
	// filters on its ingress
	useTC
	useKinds
)

func (u use) String() string {
	words := [...]string{
		"address",
		"route",
		"connected",
		"neighbour",
		"master",
		"upper",
		"packet-socket",
		"packet-protocol",
		"bound-socket",
		"multicast",
		"promiscuous",
		"xdp",
		"tc",
	}
	return words[u]
}

const usesHelp = "reasons for a device to receive, by kind, 0 if there is none: address " +
	"(unicast, not link-local), route (added), connected (came with an address), neighbour " +
	"(hosts found on it), master, upper (VLANs, macvlans ... on it), packet-socket (sniffers), " +
	"packet-protocol (DHCP, LLDP), bound-socket (TCP listeners, UDP), multicast (IPv4 groups), " +
	"promiscuous, xdp, tc (ingress filters)"

// uses counts the uses of the devices of one namespace. It counts again after an event, and every
// stillFacts for what has no event.
type uses struct {
	space        *collect.Namespace[*devices]
	diag         *netlink.Conn
	packet, igmp *proc.File
	useRequests

	lacks      [useKinds]string // why a kind cannot be counted
	when       time.Time
	pace       pace // routes and neighbours of a large router
	counts     map[int32]*[useKinds]float64
	everywhere [useKinds]float64 // packet sockets bound to no device, which receive from all
	filters    float64
	epoch      int
	labels     [useKinds]label
}

type useRequests struct {
	askRoutes, askNeighbours, askSockets, askTC netlink.Request
	onRoute, onNeighbour, onSocket, onFilter    func(uint16, []byte) error
}

// open opens the sockets and files. It must be called inside the namespace.
func (u *uses) open(s *collect.Namespace[*devices]) {
	u.space, u.epoch = s, -1
	u.counts = map[int32]*[useKinds]float64{}
	var err error
	if u.packet, err = s.OpenProc("net/packet"); err != nil && !errors.Is(err, measure.ErrDenied) {
		u.packet = nil // this kernel has no packet sockets
	} else if err != nil {
		u.lacks[usePacketSocket] = err.Error()
		u.lacks[usePacketProtocol] = err.Error()
	}
	if u.igmp, err = s.OpenProc("net/igmp"); err != nil {
		u.igmp = nil
	}
	if u.diag, err = netlink.Dial(unix.NETLINK_SOCK_DIAG, netlink.Options{}); err != nil {
		u.diag = nil
		u.lacks[useBoundSocket] = err.Error()
	}
	u.onRoute, u.onNeighbour = u.takeRoute, u.takeNeighbour
	u.onSocket, u.onFilter = u.takeSocket, u.takeFilter
}

func (u *uses) close() {
	u.diag.Close()
	u.packet.Close()
	u.igmp.Close()
}

func (u *uses) of(index int32) *[useKinds]float64 {
	c := u.counts[index]
	if c == nil {
		c = &[useKinds]float64{}
		u.counts[index] = c
	}
	return c
}

// refresh counts again if something changed or it is time.
func (u *uses) refresh(d *devices, now time.Time) {
	changed := d.stale.routes || d.stale.qdiscs || d.usesStale
	if !changed && now.Sub(u.when) < stillFacts || !u.pace.due(now) {
		return
	}
	d.stale.routes, d.stale.qdiscs, d.usesStale = false, false, false
	u.when = now
	for index, c := range u.counts {
		if d.links[index] == nil {
			delete(u.counts, index)
			continue
		}
		*c = [useKinds]float64{}
	}
	u.everywhere = [useKinds]float64{}
	for _, k := range [...]use{useRoute, useConnected, useNeighbour, useTC} {
		u.lacks[k] = ""
	}
	began := time.Now()
	for _, family := range [...]uint8{unix.AF_INET, unix.AF_INET6} {
		u.askRoutes.Begin(unix.RTM_GETROUTE, 0)
		u.askRoutes.Extend(unix.SizeofRtMsg)[0] = family
		if err := d.routes.Dump(&u.askRoutes, u.onRoute); err != nil &&
			!errors.Is(err, netlink.ErrInterrupted) &&
			!errors.Is(err, measure.ErrUnsupported) {
			u.lacks[useRoute], u.lacks[useConnected] = err.Error(), err.Error()
		}
	}
	u.askNeighbours.Begin(unix.RTM_GETNEIGH, 0)
	u.askNeighbours.Extend(unix.SizeofNdMsg)
	if err := d.routes.Dump(&u.askNeighbours, u.onNeighbour); err != nil &&
		!errors.Is(err, netlink.ErrInterrupted) {
		u.lacks[useNeighbour] = err.Error()
	}
	u.pace.took(began)
	for i := range d.addresses {
		if a := &d.addresses[i]; a.scope == unix.RT_SCOPE_UNIVERSE ||
			a.scope == unix.RT_SCOPE_SITE {
			u.of(a.index)[useAddress]++
		}
	}
	for _, q := range d.qdiscs.order {
		if q.key.parent == tcIngress {
			u.countFilters(d, q)
		}
	}
	u.readFiles()
	u.readSockets()
}

// takeRoute parses an RTM_NEWROUTE: struct rtmsg (u8 family, dst_len, src_len, tos, table,
// protocol, scope, type, u32 flags) and attributes.
func (u *uses) takeRoute(typ uint16, payload []byte) error {
	if typ != unix.RTM_NEWROUTE {
		return nil
	}
	parseRoute(payload, func(index int32, connected bool) {
		if connected {
			u.of(index)[useConnected]++
		} else {
			u.of(index)[useRoute]++
		}
	})
	return nil
}

// parseRoute calls f for each device of a unicast route. It leaves out routes that every device has
// (fe80::/64).
func parseRoute(payload []byte, f func(index int32, connected bool)) {
	if len(payload) < unix.SizeofRtMsg || payload[7] != unix.RTN_UNICAST {
		return
	}
	connected := payload[5] == unix.RTPROT_KERNEL
	var one int32
	var many netlink.Attrs
	several := false
	for a := netlink.AttrsOf(payload[unix.SizeofRtMsg:]); a.Next(); {
		switch a.Type() {
		case unix.RTA_DST:
			if v := a.Value(); connected && len(v) == 16 && v[0] == 0xfe && v[1]&0xc0 == 0x80 {
				return
			}
		case unix.RTA_OIF:
			one = int32(a.Uint())
		case unix.RTA_MULTIPATH:
			many, several = a, true
		}
	}
	if !several {
		if one > 0 {
			f(one, connected)
		}
		return
	}
	// struct rtnexthop: u16 length with attributes, u8 flags, u8 hops, s32 index
	for b := many.Value(); len(b) >= 8; {
		n := int(native.Uint16(b))
		if index := int32(native.Uint32(b[4:])); index > 0 {
			f(index, connected)
		}
		if n = (n + 3) &^ 3; n < 8 || n > len(b) {
			break
		}
		b = b[n:]
	}
}

// takeNeighbour parses an RTM_NEWNEIGH: struct ndmsg (u8 family, 3 bytes, s32 index, u16 state, u8
// flags, u8 type).
func (u *uses) takeNeighbour(typ uint16, payload []byte) error {
	const alive = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE |
		unix.NUD_PERMANENT
	if typ != unix.RTM_NEWNEIGH || len(payload) < unix.SizeofNdMsg ||
		payload[11] != unix.RTN_UNICAST {
		return nil
	}
	if f := payload[0]; f != unix.AF_INET && f != unix.AF_INET6 ||
		native.Uint16(payload[8:])&alive == 0 {
		return nil
	}
	u.of(int32(native.Uint32(payload[4:])))[useNeighbour]++
	return nil
}

// countFilters counts the filters on the ingress of a device: clsact has two hooks, ingress has
// one.
func (u *uses) countFilters(d *devices, q *qdisc) {
	parent := q.key.handle
	if q.kind == "clsact" {
		parent = tcIngress&tcMajor | 0xfff2 // TC_H_MIN_INGRESS
	}
	u.askTC.Begin(unix.RTM_GETTFILTER, 0)
	h := u.askTC.Extend(sizeofTC)
	native.PutUint32(h[4:], uint32(q.key.index))
	native.PutUint32(h[12:], parent)
	u.filters = 0
	if err := d.routes.Dump(&u.askTC, u.onFilter); err != nil &&
		!errors.Is(err, netlink.ErrInterrupted) {
		u.lacks[useTC] = err.Error()
	}
	u.of(q.key.index)[useTC] += u.filters
}

func (u *uses) takeFilter(typ uint16, payload []byte) error {
	if typ == unix.RTM_NEWTFILTER && isFilter(payload) {
		u.filters++
	}
	return nil
}

// isFilter distinguishes a filter from the head of a list of filters, which has no handle, and from
// a hash table of u32, whose handle has no node number.
func isFilter(payload []byte) bool {
	if len(payload) < sizeofTC {
		return false
	}
	handle := native.Uint32(payload[8:])
	for a := netlink.AttrsOf(payload[sizeofTC:]); a.Next(); {
		if a.Type() == tcaKind && string(a.Text()) == "u32" {
			handle &= 0xfff // TC_U32_NODE
		}
	}
	return handle != 0
}

// readFiles counts packet sockets and multicast groups.
func (u *uses) readFiles() {
	if u.packet != nil {
		b, err := u.packet.Read()
		if err == nil {
			parsePackets(b, func(index int32, all bool) {
				k := usePacketProtocol
				if all {
					k = usePacketSocket
				}
				if index == 0 {
					u.everywhere[k]++
				} else {
					u.of(index)[k]++
				}
			})
			u.lacks[usePacketSocket], u.lacks[usePacketProtocol] = "", ""
		} else {
			u.lacks[usePacketSocket], u.lacks[usePacketProtocol] = err.Error(), err.Error()
		}
	}
	if u.igmp != nil {
		b, err := u.igmp.Read()
		u.lacks[useMulticast] = ""
		if err == nil {
			parseIGMP(b, func(index int32) { u.of(index)[useMulticast]++ })
		} else {
			u.lacks[useMulticast] = err.Error()
		}
	}
}

// parsePackets parses /proc/net/packet: sk RefCnt Type Proto Iface R Rmem User Inode. It calls f
// with the device (0: all) of each socket that receives, and whether it receives all protocols
// (ETH_P_ALL).
func parsePackets(b []byte, f func(index int32, all bool)) {
	c := proc.Scan(b)
	for c.NextLine() && !c.End() {
		c.Clear()
		c.Skip(3)
		protocol, index, running := c.Hex(), c.Uint(), c.Uint()
		if c.Err() == nil && running != 0 && protocol != 0 && index <= math.MaxInt32 {
			f(int32(index), protocol == unix.ETH_P_ALL)
		}
	}
}

// parseIGMP parses /proc/net/igmp: a line for each device, beginning with its index, then its
// groups, indented, in hexadecimal of the machine's byte order. It calls f with the device of each
// group except 224.0.0.1, which all devices join.
func parseIGMP(b []byte, f func(index int32)) {
	var index uint64
	c := proc.Scan(b)
	for c.NextLine() && !c.End() {
		c.Clear()
		line := c.Rest()
		if line[0]-'0' <= 9 {
			if index = c.Uint(); c.Err() != nil || index > math.MaxInt32 {
				index = 0
			}
			continue
		}
		group := c.Hex()
		if c.Err() != nil || index == 0 {
			continue
		}
		var raw [4]byte
		native.PutUint32(raw[:], uint32(group))
		if raw != [4]byte{224, 0, 0, 1} {
			f(int32(index))
		}
	}
}

// readSockets counts sockets that are bound to a device. A small program in the request lets the
// kernel send only those. It reads listening TCP and UDP sockets; established ones are reached by
// their routes.
func (u *uses) readSockets() {
	if u.diag == nil {
		return
	}
	u.lacks[useBoundSocket] = ""
	for _, protocol := range [...]uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		for _, family := range [...]uint8{unix.AF_INET, unix.AF_INET6} {
			boundRequest(&u.askSockets, family, protocol)
			if err := u.diag.Dump(&u.askSockets, u.onSocket); err != nil &&
				!errors.Is(err, netlink.ErrInterrupted) &&
				!errors.Is(err, measure.ErrUnsupported) {
				u.lacks[useBoundSocket] = err.Error()
			}
		}
	}
}

// boundRequest asks sock_diag(7) for sockets whose bound device is not 0: struct inet_diag_req_v2
// (u8 family, protocol, ext, pad, u32 states, 48 bytes of socket identity) and
// INET_DIAG_REQ_BYTECODE, with struct inet_diag_bc_op (u8 code, yes, u16 no). A program accepts if
// it ends at its last byte, and refuses if it jumps 4 beyond. Only a no may do that
// (inet_diag_bc_audit):
//
//	0  DEV_COND yes 8, no 12 | index 0    bound to nothing: to 8; else to the end
//	8  JMP      yes 4, no 8               takes no, always: refuse
func boundRequest(q *netlink.Request, family, protocol uint8) {
	const jump, devCondition = 1, 9 // INET_DIAG_BC_JMP, INET_DIAG_BC_DEV_COND
	q.Begin(unix.SOCK_DIAG_BY_FAMILY, 0)
	h := q.Extend(56)
	h[0], h[1] = family, protocol
	states := uint32(math.MaxUint32)
	if protocol == unix.IPPROTO_TCP {
		states = 1 << 10 // TCP_LISTEN
	}
	native.PutUint32(h[4:], states)
	var program [12]byte
	program[0], program[1] = devCondition, 8
	native.PutUint16(program[2:], 12)
	program[8], program[9] = jump, 4
	native.PutUint16(program[10:], 8)
	q.Attr(1, program[:])
}

// takeSocket parses struct inet_diag_msg: the bound device is at 40.
func (u *uses) takeSocket(typ uint16, payload []byte) error {
	if typ != unix.SOCK_DIAG_BY_FAMILY || len(payload) < 44 {
		return nil
	}
	if index := int32(native.Uint32(payload[40:])); index > 0 {
		u.of(index)[useBoundSocket]++
	}
	return nil
}

// emit puts one row for each kind of use of each device.
func (u *uses) emit(table *collect.Table, o *collect.Out, d *devices, read uint32) {
	if u.epoch != o.Epoch {
		u.epoch = o.Epoch
		for k := range useKinds {
			u.labels[k] = o.Label(k.String())
		}
	}
	for k, why := range u.lacks {
		if why != "" {
			table.Note(
				fmt.Sprintf(
					"uses of kind %s%s are not known: %s", use(k), d.space.Of(),
					strings.TrimSpace(why),
				),
			)
		}
	}
	if u.pace.rests {
		table.Note("routes or neighbours are so many that uses of devices are counted only now " +
			"and then")
	}
	var none [useKinds]float64
	for _, l := range d.order {
		if l.counted != read {
			continue
		}
		counts := u.counts[l.index]
		if counts == nil {
			counts = &none
		}
		for k, label := range u.labels {
			v := counts[k] + u.everywhere[k]
			switch use(k) {
			case useMaster:
				v = float64(min(l.master, 1))
			case useUpper:
				v = float64(l.uppers)
			case usePromiscuous:
				v = float64(l.promiscuity)
			case useXDP:
				if v = 0; l.xdp {
					v = 1
				}
			}
			if u.lacks[k] != "" {
				v = measure.NaN
			}
			table.Put(v, l.ns, l.device, label)
		}
	}
}
