package network

import (
	"strings"
	"unsafe"

	"culprit/collect"

	"golang.org/x/sys/unix"
)

// driverStrings are a driver's own counters: their names and previous values. A value that
// decreases is a gauge and not a counter (veth's peer_ifindex); its step is left out.
type driverStrings struct {
	names    []string
	last     []uint64
	compared uint32 // the reading of the previous values; 0: none
	epoch    int
	labels   []label
}

// The kernel writes as many counters as the driver has at that moment, whatever the caller's buffer
// holds (ethtool_get_stats). So the buffer is larger than any driver fills. Only its touched pages
// use memory.
const (
	mostCounters  = 1 << 17
	sizeofString  = 32 // ETH_GSTRING_LEN
	scratchBytes  = 12 + mostCounters*sizeofString
	setOfCounters = 1 // ETH_SS_STATS
)

// scratch is memory outside Go's heap for the answers of ethtool's ioctl.
type scratch []byte

func (s *scratch) get() []byte {
	if *s == nil {
		b, err := unix.Mmap(
			-1, 0, scratchBytes, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS,
		)
		if err != nil {
			return nil
		}
		*s = b
	}
	return *s
}

func (s *scratch) free() {
	if *s != nil {
		_ = unix.Munmap(*s)
		*s = nil
	}
}

// driverCounters reads the counters of a device: struct ethtool_stats, u32 cmd, n_stats, then as
// many u64. The slice is valid until the scratch is used again. It is nil if the driver has none.
func driverCounters(fd int, name string, buffer []byte) []uint64 {
	native.PutUint32(buffer, unix.ETHTOOL_GSTATS)
	native.PutUint32(buffer[4:], 0)
	if ethtoolCall(fd, name, unsafe.Pointer(&buffer[0])) != 0 {
		return nil
	}
	n := int(native.Uint32(buffer[4:]))
	if n <= 0 || n > mostCounters {
		return nil
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&buffer[8])), n)
}

// counterNames reads the names of n counters: struct ethtool_gstrings, u32 cmd, string_set, len,
// then strings of 32 bytes. Repeated names get a number, so that their rows differ.
func counterNames(fd int, name string, n int, buffer []byte) []string {
	native.PutUint32(buffer, unix.ETHTOOL_GSTRINGS)
	native.PutUint32(buffer[4:], setOfCounters)
	native.PutUint32(buffer[8:], uint32(n))
	if ethtoolCall(fd, name, unsafe.Pointer(&buffer[0])) != 0 ||
		int(native.Uint32(buffer[8:])) != n {
		return nil
	}
	names := make([]string, n)
	seen := make(map[string]int, n)
	for i := range names {
		s := strings.TrimSpace(cString(buffer[12+i*sizeofString:][:sizeofString]))
		if seen[s]++; seen[s] > 1 || s == "" {
			s += "#" + handleNumber(seen[s])
		}
		names[i] = s
	}
	return names
}

func handleNumber(n int) string {
	var b [20]byte
	i := len(b)
	for ; n > 0; n /= 10 {
		i--
		b[i] = byte('0' + n%10)
	}
	return string(b[i:])
}

// drivers puts the driver counters of all devices that grew.
func (e *ethtools) drivers(
	o *collect.Out, table *collect.Table, links []*link, read uint32, buffer []byte,
) {
	if e.fd < 0 || buffer == nil {
		return
	}
	for _, l := range links {
		t := e.devices[l.index]
		if t == nil || l.counted != read || t.driver == "" || t.bare {
			continue
		}
		values := driverCounters(e.fd, l.name, buffer)
		if len(values) == 0 {
			t.bare = true
			continue
		}
		s := t.strings
		if s == nil || len(s.names) != len(values) {
			// The answer with the names overwrites the values.
			names := counterNames(e.fd, l.name, len(values), buffer)
			if names == nil {
				continue
			}
			s = &driverStrings{
				names:  names,
				last:   make([]uint64, len(names)),
				labels: make([]label, len(names)),
				epoch:  -1,
			}
			t.strings = s
			if values = driverCounters(e.fd, l.name, buffer); len(values) != len(names) {
				continue
			}
		}
		if s.epoch != o.Epoch {
			s.epoch = o.Epoch
			for i, name := range s.names {
				s.labels[i] = o.Label(name)
			}
		}
		since := s.compared != 0 && s.compared == read-1 || o.First && o.SinceBoot
		for i, v := range values {
			if since && v > s.last[i] {
				table.Put(float64(v-s.last[i]), l.ns, l.device, s.labels[i])
			}
			s.last[i] = v
		}
		s.compared = read
	}
}
