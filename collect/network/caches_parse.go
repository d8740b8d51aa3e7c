package network

import (
	"bytes"
	"fmt"

	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"
)

// socketCounts are the numbers of sockets in sockstat and sockstat6. UDP-Lite, which some kernels
// lack, is part of UDP.
type socketCounts struct {
	tcp, tcp6, tw, orphan, alloc, udp, udp6, lite struct {
		n  uint64
		ok bool
	}
}

func (c *socketCounts) take(protocol, state []byte, v uint64) {
	to := &c.lite
	switch string(protocol) + " " + string(state) {
	case "TCP inuse":
		to = &c.tcp
	case "TCP6 inuse":
		to = &c.tcp6
	case "TCP tw":
		to = &c.tw
	case "TCP orphan":
		to = &c.orphan
	case "TCP alloc":
		to = &c.alloc
	case "UDP inuse":
		to = &c.udp
	case "UDP6 inuse":
		to = &c.udp6
	case "UDPLITE inuse", "UDPLITE6 inuse":
	default:
		return
	}
	to.n, to.ok = to.n+v, true
}

const sizeofNeighbourTable = 4 // struct ndtmsg, include/uapi/linux/neighbour.h

// neighbourTable is one neighbour table of the machine.
type neighbourTable struct {
	ok                      bool
	entries, buckets, limit uint32
	counts, collects        bool // the kernel counts refusals, and forced collections
	refused, collected      uint64
}

// parseNeighbourTable parses three attributes (include/uapi/linux/neighbour.h):
//
//   - NDTA_NAME 1 and NDTA_THRESH3 4
//   - NDTA_CONFIG 5: struct ndt_config of u16 key_len, entry_size, u32 entries, last_flush,
//     last_rand, hash_rnd, hash_mask
//   - NDTA_STATS 7: struct ndt_stats of eleven u64. The last two are forced_gc_runs and, since
//     Linux 4.3, table_fulls.
func parseNeighbourTable(payload []byte) (name []byte, t neighbourTable) {
	for a := netlink.AttrsOf(payload[min(sizeofNeighbourTable, len(payload)):]); a.Next(); {
		switch v := a.Value(); {
		case a.Type() == 1:
			name = a.Text()
		case a.Type() == 4 && len(v) == 4:
			t.limit = native.Uint32(v)
		case a.Type() == 5 && len(v) >= 24:
			t.entries, t.buckets, t.ok = native.Uint32(v[4:]), native.Uint32(v[20:])+1, true
		case a.Type() == 7 && len(v) >= 80:
			t.collected, t.collects = native.Uint64(v[72:]), true
			if len(v) >= 88 {
				t.refused, t.counts = native.Uint64(v[80:]), true
			}
		}
	}
	return name, t
}

// parseTrieStat adds up the prefixes of all routing tables in /proc/net/fib_triestat. Main and
// Local are one trie until a rule is added (fib_unmerge). The file then shows it twice with the
// same statistics, and it counts once.
func parseTrieStat(b []byte) (prefixes uint64, err error) {
	var local, main []byte
	var localCount, mainCount uint64
	var at *uint64
	var body *[]byte
	other := uint64(0)
	for c := proc.Scan(b); !c.End(); {
		line := c.Line()
		switch {
		case len(line) == 0 || bytes.HasPrefix(line, []byte("Basic info")):
		case line[0] != '\t' && line[0] != ' ' && line[len(line)-1] == ':':
			start := c.Rest()
			switch string(line) {
			case "Local:":
				at, body, local = &localCount, &local, start[:0]
			case "Main:":
				at, body, main = &mainCount, &main, start[:0]
			default:
				at, body = &other, nil
			}
		default:
			if body != nil {
				*body = (*body)[:len(*body)+len(line)+min(1, len(c.Rest()))]
			}
			w := proc.Scan(line)
			if string(w.Word()) == "Prefixes:" && at != nil {
				*at += w.Uint()
				if err := w.Err(); err != nil {
					return 0, fmt.Errorf("%.40q: %w", line, err)
				}
			}
		}
	}
	if at == nil {
		return 0, fmt.Errorf("no routing table in it: %w", measure.ErrUnclear)
	}
	prefixes = other + mainCount
	if local != nil && !bytes.Equal(bytes.TrimRight(local, "\n"), bytes.TrimRight(main, "\n")) {
		prefixes += localCount
	}
	return prefixes, nil
}

// parseRT6Stats returns the routes in /proc/net/rt6_stats, the fourth of its hexadecimal numbers
// (rt6_stats_seq_show: fib_nodes, route_nodes, rt_alloc, rt_entries ...).
func parseRT6Stats(b []byte) (uint64, error) {
	c := proc.Scan(b)
	c.Skip(3)
	v := c.Hex()
	return v, c.Err()
}
