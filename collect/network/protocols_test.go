package network

import (
	"math"
	"strings"
	"testing"

	"culprit/collect/collecttest"
	"culprit/heapbound"
)

const (
	snmpBefore = `Ip: Forwarding DefaultTTL InReceives
Ip: 1 64 1000
IcmpMsg: InType3
IcmpMsg: 5
Tcp: MaxConn CurrEstab InSegs
Tcp: -1 3 500
`
	// Another order, a new type of ICMP message, and a counter that went backwards.
	snmpAfter = `Tcp: MaxConn InSegs CurrEstab
Tcp: -1 400 4
Ip: Forwarding DefaultTTL InReceives
Ip: 1 64 1250
IcmpMsg: InType0 InType3
IcmpMsg: 7 9
`
	netstatText = "TcpExt: SyncookiesSent ListenDrops\nTcpExt: 0 18446744073709551615\nIpExt: " +
		"InOctets\nIpExt: 10\n"
	trackHeader = "entries  clashres found insert_failed drop\n"
)

func protocolMachine(t *testing.T, more map[string]string) *collecttest.Machine {
	files := map[string]string{
		"proc/net/snmp": snmpBefore, "proc/net/netstat": netstatText,
		"proc/net/snmp6": "Ip6InReceives                   \t1\nIcmp6InType134                 " +
			" \t10\nUdpLite6InErrors \t2\nUdp6InErrors\t3\n",
		"proc/net/sockstat": "sockets: used 17\nTCP: inuse 1 orphan 2 tw 3 alloc 4 mem " +
			"5\nFRAG: inuse 0 memory 4096\n",
		"proc/net/stat/nf_conntrack": trackHeader + "0000000a 00000001 fffffff0 00000002 " +
			"00000000\n0000000a 00000000 00000010 00000001 00000000\n",
	}
	for name, text := range more {
		files[name] = text
	}
	return collecttest.NewMachine(t, Protocols{}, files)
}

func TestNetProtocols(t *testing.T) {
	m := protocolMachine(t, nil)
	rows := m.Read(true)
	collecttest.Expect(t, rows, "net.protocol.events", nil)
	collecttest.Expect(
		t,
		rows,
		"net.protocol.level",
		map[string]float64{
			"net.protocol.level||Ip|Forwarding": 1,
			"net.protocol.level||Ip|DefaultTTL": 64,
			"net.protocol.level||Tcp|MaxConn":   -1,
			"net.protocol.level||Tcp|CurrEstab": 3,
		},
	)
	collecttest.Expect(
		t,
		rows,
		"net.sockets|",
		map[string]float64{
			"net.sockets||sockets|used": 17,
			"net.sockets||TCP|inuse":    1,
			"net.sockets||TCP|orphan":   2,
			"net.sockets||TCP|tw":       3,
			"net.sockets||TCP|alloc":    4,
			"net.sockets||FRAG|inuse":   0,
		},
	)
	collecttest.Expect(
		t,
		rows,
		"net.sockets.memory",
		map[string]float64{
			"net.sockets.memory||TCP":  5 * pageSize(),
			"net.sockets.memory||FRAG": 4096,
		},
	)

	m.Put(map[string]string{"proc/net/snmp": snmpAfter,
		"proc/net/snmp6": "Ip6InReceives \t4\nIcmp6InType134 \t10\nIcmp6InType135 " +
			"\t6\nUdpLite6InErrors \t2\nUdp6InErrors\t3\n",
		"proc/net/stat/nf_conntrack": trackHeader + "0000000b 00000001 00000005 00000002 " +
			"00000000\n0000000b 00000000 00000010 00000003 00000004\n"})
	rows = m.Read(false)
	collecttest.Expect(t, rows, "net.protocol.events", map[string]float64{
		"net.protocol.events||Ip|InReceives": 250, "net.protocol.events||Tcp|InSegs": math.NaN(),
		"net.protocol.events||IcmpMsg|InType0": 7, "net.protocol.events||IcmpMsg|InType3": 4,
		"net.protocol.events||TcpExt|SyncookiesSent": 0, "net.protocol.events||TcpExt|ListenDrops": 0,
		"net.protocol.events||Ip6|InReceives": 3, "net.protocol.events||Icmp6|InType134": 0, "net.protocol.events||Icmp6|InType135": 6,
		"net.protocol.events||UdpLite6|InErrors": 0, "net.protocol.events||Udp6|InErrors": 0,
		"net.protocol.events||Conntrack|clashres": 0, "net.protocol.events||Conntrack|found": 0x15, "net.protocol.events||Conntrack|insert_failed": 2,
		"net.protocol.events||Conntrack|drop": 4,
	})
	collecttest.Expect(t, rows, "net.protocol.bytes", map[string]float64{
		"net.protocol.bytes||IpExt|InOctets": 0,
	})
	collecttest.Expect(
		t, rows, "net.protocol.level||Tcp|C",
		map[string]float64{"net.protocol.level||Tcp|CurrEstab": 4},
	)
	if !strings.Contains(m.Notes(), "went backwards") {
		t.Error("nothing is said of the reset:", m.Notes())
	}
	m.Read(false)
	if strings.Contains(m.Notes(), "went backwards") {
		t.Error("the note on the reset stays:", m.Notes())
	}
}

// A malformed file is noted, and the others are still read.
func TestNetProtocolsBroken(t *testing.T) {
	for name, text := range map[string]string{
		"values missing":   "Ip: InReceives\n",
		"another's values": "Ip: InReceives\nTcp: 5\n",
		"too few":          "Ip: InReceives InDelivers\nIp: 5\n",
		"no number":        "Ip: InReceives\nIp: many\n",
		"no colon":         "Ip\nIp\n",
	} {
		m := protocolMachine(t, map[string]string{"proc/net/snmp": text})
		m.Start(true)
		if err := m.Reading.Read(m.Out); err == nil || !strings.Contains(err.Error(), "net/snmp") {
			t.Errorf("%s: %v", name, err)
		}
		if rows := collecttest.RowsOf(t, m.Out); rows["net.sockets||TCP|inuse"] != 1 {
			t.Errorf("%s: sockets are gone too: %v", name, rows)
		}
	}
}

func FuzzNetFiles(f *testing.F) {
	for _, s := range []string{
		snmpBefore,
		snmpAfter,
		netstatText,
		trackHeader + "0000000a 1 2 3 4\n",
		"Ip6InReceives \t1\n",
		trieMerged,
		"TCP: inuse 1 orphan 0\n",
		"003f 002a 0061 0040 0000 000c 0000\n",
		"Idx\tDevice\n1\tlo        :\n\t\t\t\t010000E0     1 0:00000000\t\t0\n",
		"sk RefCnt\nff 3 3 0003 2 1 0 0 1\n",
	} {
		f.Add([]byte(s), []byte(s))
	}
	heapbound.Fuzz(f, func(t *testing.T, one, two []byte) {
		for _, parse := range []func(*counterTable, []byte) error{
			(*counterTable).parsePairs,
			(*counterTable).parseLines,
			(*counterTable).parseTrack,
			(*counterTable).parseARP,
		} {
			var table counterTable
			for _, b := range [][]byte{one, two, one} {
				table.n = 0
				_ = parse(&table, b)
				if table.n > len(table.lines) || table.n > len(b) {
					t.Fatalf("%d lines out of %d bytes", table.n, len(b))
				}
			}
		}
		parseDev(one, func(name []byte, _ *[linkCounters]uint64) {
			if len(name) > len(one) {
				t.Error("a name out of nothing")
			}
		})
		_ = parseSockstat(one, func(_, _ []byte, _ uint64) {})
		_, _ = parseTrieStat(one)
		_, _ = parseRT6Stats(one)
		parsePackets(one, func(index int32, _ bool) {
			if index < 0 {
				t.Error("device", index)
			}
		})
		parseIGMP(one, func(index int32) {
			if index <= 0 {
				t.Error("device", index)
			}
		})
	})
}

func BenchmarkNetProtocolsRead(b *testing.B) { collecttest.BenchmarkRead(b, Protocols{}) }
