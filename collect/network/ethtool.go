package network

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"culprit/collect"
	"culprit/kernel/netlink"

	"golang.org/x/sys/unix"
)

// ethtools reads the drivers of one namespace by the generic netlink family "ethtool"
// (Documentation/networking/ethtool-netlink.rst, since Linux 5.6). What that lacks (driver names,
// driver statistics) it reads by ioctl SIOCETHTOOL. It reads again every stillFacts, or when a link
// changed. Some drivers ask their firmware and take milliseconds, too long for each interval.
type ethtools struct {
	generic *netlink.Conn  // nil: this kernel has no ethtool netlink
	family  netlink.Family //
	events  *netlink.Conn  // ethtool's own events (ethtool -s); nil: not available
	fd      int            // any socket of the namespace, for ioctl; -1: none

	stale   bool
	when    time.Time
	round   uint32
	devices map[int32]*ethtool
	none    ethtool

	wantModes, wantRings bool
	askModes, askRings   netlink.Request
	onModes, onRings     func(uint16, []byte) error
	onEvent              func(uint16, []byte) error
	nothing              func()
	failed               string // why nothing can be read; "": it can
}

// ethtool is what a driver reports of its device.
type ethtool struct {
	round   uint32
	asked   bool   // driver and bus are known
	name    string // under which they were read
	driver  string // "" if the device has none
	bus     string // PCI address or similar
	mbps    uint32 // SPEED; 0: unknown. Not reliable for each kind: see speed
	duplex  uint8  // DUPLEX_HALF 0, DUPLEX_FULL 1, DUPLEX_UNKNOWN 0xff
	autoneg uint8  // 0: off, 1: on, 0xff: unknown
	modes   []linkMode
	rings   ringSizes
	bare    bool           // the driver has no counters of its own; asked again at the next refresh
	strings *driverStrings // names of the driver's counters; nil before they were read
}

// linkMode is one mode in a list of a device.
type linkMode struct {
	list linkModeList
	name string  // in ethtool's spelling: 1000baseT/Full
	bps  float64 // bit/s
}

type linkModeList uint8

const (
	supported linkModeList = iota
	advertised
	partner
)

func (l linkModeList) String() string {
	words := [...]string{"supported", "advertised", "partner"}
	return words[l]
}

const unknown8 = 0xff // DUPLEX_UNKNOWN, and autoneg that is not known

func (e *ethtools) open(
	dial func(protocol int) (*netlink.Conn, error), socket func() (int, error),
) {
	e.fd = -1
	e.devices = map[int32]*ethtool{}
	e.none = ethtool{duplex: unknown8, autoneg: unknown8}
	e.stale = true
	if fd, err := socket(); err == nil {
		e.fd = fd
	}
	conn, err := dial(unix.NETLINK_GENERIC)
	if err == nil {
		if e.family, err = conn.Family(unix.ETHTOOL_GENL_NAME); err != nil {
			conn.Close()
		} else {
			e.generic = conn
		}
	}
	if e.generic == nil && e.fd < 0 {
		e.failed = "ethtool cannot be used: " + err.Error()
		return
	}
	if e.generic == nil {
		return
	}
	if group, ok := e.family.Groups[unix.ETHTOOL_MCGRP_MONITOR_NAME]; ok {
		if e.events, err = dial(unix.NETLINK_GENERIC); err == nil {
			if e.events.Join(group) != nil {
				e.events.Close()
				e.events = nil
			}
		} else {
			e.events = nil
		}
	}
	e.onModes, e.onRings, e.nothing = e.takeModes, e.takeRings, func() {}
	e.onEvent = func(uint16, []byte) error { e.stale = true; return nil }
}

// ask builds the requests. Lists of modes are long, and left out if not wanted.
func (e *ethtools) ask(modes, rings bool) {
	e.wantModes, e.wantRings = modes, rings
	begin := func(q *netlink.Request, command uint8, header uint16, flags uint32) {
		q.BeginGeneric(e.family, command, 0)
		at := q.Nest(header)
		if flags != 0 {
			q.AttrUint32(unix.ETHTOOL_A_HEADER_FLAGS, flags)
		}
		q.EndNest(at)
	}
	var flags uint32
	if !modes {
		flags = unix.ETHTOOL_FLAG_COMPACT_BITSETS
	}
	begin(&e.askModes, unix.ETHTOOL_MSG_LINKMODES_GET, unix.ETHTOOL_A_LINKMODES_HEADER, flags)
	begin(&e.askRings, unix.ETHTOOL_MSG_RINGS_GET, unix.ETHTOOL_A_RINGS_HEADER, 0)
}

func (e *ethtools) close() {
	e.generic.Close()
	e.events.Close()
	if e.fd >= 0 {
		unix.Close(e.fd)
		e.fd = -1
	}
}

// of returns what is known of a device; never nil.
func (e *ethtools) of(l *link) *ethtool {
	if l.tool != nil {
		return l.tool
	}
	return &e.none
}

// refresh reads again when it is due. It returns a note if something could not be read.
func (e *ethtools) refresh(links []*link, now time.Time) (changed bool, note string) {
	if e.failed != "" {
		return false, e.failed
	}
	if e.events != nil && e.events.Receive(0, e.onEvent) != nil {
		e.stale = true
	}
	if !e.stale && now.Sub(e.when) < stillFacts {
		return false, ""
	}
	e.stale, e.when = false, now
	e.round++
	for _, l := range links {
		t := e.devices[l.index]
		if t == nil {
			t = &ethtool{}
			e.devices[l.index] = t
		}
		l.tool = t
		t.round, t.mbps, t.bare = e.round, 0, false
		t.duplex, t.autoneg = unknown8, unknown8
		t.modes, t.rings = t.modes[:0], ringSizes{}
		if (!t.asked || t.name != l.name) && e.fd >= 0 {
			t.driver, t.bus = driverInfo(e.fd, l.name)
			t.asked, t.name, t.strings = true, l.name, nil
		}
	}
	for index, t := range e.devices {
		if t.round != e.round {
			delete(e.devices, index)
		}
	}
	switch {
	case e.generic != nil:
		if err := e.generic.DumpRetry(&e.askModes, 3, e.nothing, e.onModes); err != nil &&
			!errors.Is(err, netlink.ErrInterrupted) {
			note = fmt.Sprintf("speeds and modes could not be read: %v", err)
		}
		if e.wantRings {
			if err := e.generic.DumpRetry(&e.askRings, 3, e.nothing, e.onRings); err != nil &&
				!errors.Is(err, netlink.ErrInterrupted) {
				note = fmt.Sprintf("rings could not be read: %v", err)
			}
		}
	case e.fd >= 0:
		for _, l := range links {
			linkSettings(e.fd, l.name, e.devices[l.index])
		}
		if e.wantModes || e.wantRings {
			note = "link modes and rings need ethtool netlink (Linux 5.6)"
		}
	}
	return true, note
}

// takeModes parses an ETHTOOL_MSG_LINKMODES_GET_REPLY.
func (e *ethtools) takeModes(_ uint16, payload []byte) error {
	command, attrs, ok := netlink.Generic(payload)
	if !ok || command != unix.ETHTOOL_MSG_LINKMODES_GET_REPLY {
		return nil
	}
	index := ethtoolIndex(attrs, unix.ETHTOOL_A_LINKMODES_HEADER)
	t := e.devices[index]
	if t == nil {
		return nil
	}
	t.modes = t.modes[:0]
	return parseLinkModes(attrs, t, e.wantModes)
}

// ethtoolIndex returns the device of an answer from the header at its start.
func ethtoolIndex(attrs []byte, header uint16) int32 {
	for a := netlink.AttrsOf(attrs); a.Next(); {
		if a.Type() == header {
			for h := a.Nested(); h.Next(); {
				if h.Type() == unix.ETHTOOL_A_HEADER_DEV_INDEX {
					return int32(h.Uint())
				}
			}
		}
	}
	return 0
}

// parseLinkModes parses the attributes of a LINKMODES_GET_REPLY into t.
func parseLinkModes(attrs []byte, t *ethtool, modes bool) error {
	a := netlink.AttrsOf(attrs)
	for a.Next() {
		switch a.Type() {
		case unix.ETHTOOL_A_LINKMODES_SPEED:
			if v := uint32(a.Uint()); v != 1<<32-1 { // SPEED_UNKNOWN
				t.mbps = v
			}
		case unix.ETHTOOL_A_LINKMODES_DUPLEX:
			t.duplex = uint8(a.Uint())
		case unix.ETHTOOL_A_LINKMODES_AUTONEG:
			t.autoneg = uint8(a.Uint())
		// a mask of the supported modes, whose values are the advertised ones
		case unix.ETHTOOL_A_LINKMODES_OURS:
			if modes {
				t.modes = appendModes(t.modes, a.Nested(), supported, advertised)
			}
		case unix.ETHTOOL_A_LINKMODES_PEER: // a list
			if modes {
				t.modes = appendModes(t.modes, a.Nested(), partner, partner)
			}
		}
	}
	return a.Err()
}

// appendModes parses a verbose bitset. Each bit in it belongs to list all, and also to list set if
// it has a value.
func appendModes(modes []linkMode, bitset netlink.Attrs, all, set linkModeList) []linkMode {
	for bitset.Next() {
		if bitset.Type() != unix.ETHTOOL_A_BITSET_BITS {
			continue
		}
		for bits := bitset.Nested(); bits.Next(); {
			if bits.Type() != unix.ETHTOOL_A_BITSET_BITS_BIT {
				continue
			}
			var name []byte
			value := false
			for b := bits.Nested(); b.Next(); {
				switch b.Type() {
				case unix.ETHTOOL_A_BITSET_BIT_NAME:
					name = b.Text()
				case unix.ETHTOOL_A_BITSET_BIT_VALUE:
					value = true
				}
			}
			bps := modeSpeed(name)
			if bps == 0 {
				continue
			}
			m := linkMode{list: all, name: string(name), bps: bps}
			modes = append(modes, m)
			if value && set != all {
				m.list = set
				modes = append(modes, m)
			}
		}
	}
	return modes
}

// modeSpeed returns the bit/s in a mode's name (1000baseT/Full, 2500baseX/Full, 10000baseR_FEC), 0
// for names that are not modes: Autoneg, TP, Pause ...
func modeSpeed(name []byte) float64 {
	n := 0
	for n < len(name) && name[n]-'0' <= 9 {
		n++
	}
	if n == 0 || !bytes.HasPrefix(name[n:], []byte("base")) {
		return 0
	}
	v, err := strconv.ParseUint(string(name[:n]), 10, 32)
	if err != nil {
		return 0
	}
	return float64(v) * 1e6
}

// ringSizes are descriptors; 0: the device has no such ring or does not report it.
type ringSizes struct{ rx, rxMax, tx, txMax uint32 }

// takeRings parses an ETHTOOL_MSG_RINGS_GET_REPLY.
func (e *ethtools) takeRings(_ uint16, payload []byte) error {
	command, attrs, ok := netlink.Generic(payload)
	if !ok || command != unix.ETHTOOL_MSG_RINGS_GET_REPLY {
		return nil
	}
	if t := e.devices[ethtoolIndex(attrs, unix.ETHTOOL_A_RINGS_HEADER)]; t != nil {
		t.rings = parseRings(attrs)
	}
	return nil
}

func parseRings(attrs []byte) (r ringSizes) {
	for a := netlink.AttrsOf(attrs); a.Next(); {
		switch a.Type() {
		case unix.ETHTOOL_A_RINGS_RX:
			r.rx = uint32(a.Uint())
		case unix.ETHTOOL_A_RINGS_RX_MAX:
			r.rxMax = uint32(a.Uint())
		case unix.ETHTOOL_A_RINGS_TX:
			r.tx = uint32(a.Uint())
		case unix.ETHTOOL_A_RINGS_TX_MAX:
			r.txMax = uint32(a.Uint())
		}
	}
	return r
}

// emit puts the modes and rings of a device.
func (t *ethtool) emit(tables *deviceTables, o *collect.Out, l *link) {
	if tables.modes != nil {
		for i := range t.modes {
			m := &t.modes[i]
			tables.modes.Put(m.bps, l.ns, l.device, o.Label(m.list.String()), o.Label(m.name))
		}
	}
	if tables.ring == nil {
		return
	}
	put := func(size uint32, ring, bound string) {
		if size > 0 {
			tables.ring.Put(float64(size), l.ns, l.device, o.Label(ring), o.Label(bound))
		}
	}
	put(t.rings.rx, "rx", "current")
	put(t.rings.rxMax, "rx", "max")
	put(t.rings.tx, "tx", "current")
	put(t.rings.txMax, "tx", "max")
}

func (t *ethtool) duplexWord() string {
	switch t.duplex {
	case 0:
		return "half"
	case 1:
		return "full"
	}
	return ""
}

func (t *ethtool) autonegWord() string {
	switch t.autoneg {
	case 0:
		return "off"
	case 1:
		return "on"
	}
	return ""
}

// Structures of include/uapi/linux/ethtool.h and if.h, and their sizes.
type (
	ethtoolDriverInfo struct { // struct ethtool_drvinfo
		cmd                                     uint32
		driver, version, fwVersion, bus, eromV  [32]byte
		reserved                                [12]byte
		privFlags, stats, tests, eeprom, regLen uint32
	}
	// struct ethtool_link_settings, with three lists of the greatest length, 127 words
	ethtoolLinkSettings struct {
		cmd, speed                               uint32
		duplex, port, phy, autoneg, mdio, tpMDIX uint8
		tpMDIXCtrl                               uint8
		words                                    int8
		transceiver, masterCfg, masterState, rm  uint8
		reserved                                 [7]uint32
		lists                                    [3 * 127]uint32
	}
	ifreqData struct { // struct ifreq with ifr_data
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [24 - unsafe.Sizeof(uintptr(0))]byte
	}
)

// Checks their sizes at compile time: a wrong size is an index out of range.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(ethtoolDriverInfo{})-196]
	_ = [1]struct{}{}[unsafe.Offsetof(ethtoolLinkSettings{}.lists)-48]
	_ = [1]struct{}{}[unsafe.Sizeof(ifreqData{})-40]
)

const ethtoolGLinkSettings = 0x4c // ETHTOOL_GLINKSETTINGS, since Linux 4.6

// ethtoolCall is ioctl SIOCETHTOOL on the named device. data begins with the command.
func ethtoolCall(fd int, name string, data unsafe.Pointer) unix.Errno {
	var q ifreqData
	if copy(q.name[:unix.IFNAMSIZ-1], name) < len(name) {
		return unix.EINVAL
	}
	q.data = data
	_, _, e := unix.Syscall(
		unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&q)),
	)
	return e
}

// driverInfo returns the driver's name and the bus address (ETHTOOL_GDRVINFO); "" if the device has
// none.
func driverInfo(fd int, name string) (driver, bus string) {
	info := &ethtoolDriverInfo{cmd: unix.ETHTOOL_GDRVINFO}
	if ethtoolCall(fd, name, unsafe.Pointer(info)) != 0 {
		return "", ""
	}
	return cString(info.driver[:]), cString(info.bus[:])
}

// linkSettings reads speed, duplex and autonegotiation by ETHTOOL_GLINKSETTINGS. The first call
// returns the length of the lists, the second the answer.
func linkSettings(fd int, name string, t *ethtool) {
	s := &ethtoolLinkSettings{cmd: ethtoolGLinkSettings}
	if ethtoolCall(fd, name, unsafe.Pointer(s)) != 0 || s.words >= 0 {
		return
	}
	words := -s.words
	*s = ethtoolLinkSettings{cmd: ethtoolGLinkSettings, words: words}
	if ethtoolCall(fd, name, unsafe.Pointer(s)) != 0 || s.words != words {
		return
	}
	t.duplex, t.autoneg = s.duplex, s.autoneg
	if s.speed != 1<<32-1 {
		t.mbps = s.speed
	}
}

func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
