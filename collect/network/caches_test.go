package network

import (
	"math"
	"testing"
	"time"

	"culprit/collect/collecttest"
	"culprit/measure"
)

const trieBody = "\tAver depth:     2.42\n\tMax depth:      3\n\tLeaves:         " +
	"7\n\tPrefixes:       9\n\tInternal nodes: 5\n\t  1: 1  2: 3  3: 1\n\tPointers: 22\nNull " +
	"ptrs: 11\nTotal size: 2  kB\n"

const trieMerged = "Basic info: size of leaf: 48 bytes, size of tnode: 40 bytes.\nMain:\n" + trieBody + "Local:\n" + trieBody

func TestParseTrieStat(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       uint64
	}{
		{"main and local are one", trieMerged, 9},
		{"parted by a rule", "Basic info: x\nMain:\n" + trieBody + "Local:\n\tPrefixes:       " +
			"4\nTotal size: 1  kB\n", 13},
		{"with a table of one's own", trieMerged + "Id 100:\n\tPrefixes:       1000\n", 1009},
		{"local alone", "Local:\n\tPrefixes:       4\n", 4},
	} {
		if got, err := parseTrieStat([]byte(c.text)); err != nil || got != c.want {
			t.Errorf("%s: %d, %v, want %d", c.name, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "Main:\n\tPrefixes: many\n", "garbage\n"} {
		if v, err := parseTrieStat([]byte(bad)); err == nil {
			t.Errorf("%q returns %d", bad, v)
		}
	}
}

func TestNetCaches(t *testing.T) {
	m := collecttest.NewMachine(t, Tables{}, map[string]string{
		"proc/net/sockstat": "sockets: used 17\nTCP: inuse 200000 " +
			"orphan 2 tw 30 alloc 200100 mem 5\nUDP: inuse 7 mem 0\n",
		"proc/net/sockstat6":                        "TCP6: inuse 5\nUDP6: inuse 3\n",
		"proc/net/fib_triestat":                     trieMerged,
		"proc/net/rt6_stats":                        "003f 002a 0061 0040 0000 000c 0000\n",
		"proc/sys/net/ipv4/tcp_ehash_entries":       "256\n",
		"proc/sys/net/ipv4/udp_hash_entries":        "-16384\n",
		"proc/sys/net/ipv4/tcp_max_tw_buckets":      "8192\n",
		"proc/sys/net/netfilter/nf_conntrack_count": "60\n",
		"proc/sys/net/netfilter/nf_conntrack_max":   "262144\n",
	})
	want := map[string]float64{
		"cache.entries||tcp-established": 200035, "cache.entries||tcp-timewait": 30, "cache.entries||udp": 10, "cache.entries||conntrack": 60,
		"cache.entries||tcp-orphan": 2, "cache.entries||route": 9, "cache.entries||route6": 0x40,
		"cache.buckets||tcp-established": 256, "cache.limit||tcp-timewait": 8192, "cache.limit||conntrack": 262144,
	}
	rows := m.Read(true)
	for k, v := range want {
		if rows[k] != v {
			t.Errorf("%s = %v, want %v", k, rows[k], v)
		}
	}
	for _, k := range []string{"cache.buckets||udp", "cache.entries||tcp-sockets", "cache.growth||conntrack"} {
		if v, ok := rows[k]; ok {
			t.Errorf("%s = %v: a table shared with others has no buckets of its own, the "+
				"machine's sockets are counted in the first namespace only, the first reading "+
				"has no growth", k, v)
		}
	}
	m.Put(map[string]string{"proc/sys/net/netfilter/nf_conntrack_count": "45\n"})
	rows = m.Read(false)
	if rows["cache.growth||conntrack"] != -15 || rows["cache.growth||tcp-established"] != 0 {
		t.Error(rows["cache.growth||conntrack"], rows["cache.growth||tcp-established"])
	}
}

// A table that is counted every ten seconds grows by a tenth of its change in each second.
func TestGrowth(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := tableState{entries: measure.NaN}
	s.count(100, now)
	if g := s.growth(measure.Second); !math.IsNaN(g) {
		t.Error("growth since nothing:", g)
	}
	s.counted = false
	s.count(200, now.Add(10*time.Second))
	if g := s.growth(measure.Second); g != 10 {
		t.Error(g)
	}
	s.counted = false
	if g := s.growth(measure.Second); !math.IsNaN(g) {
		t.Error("growth of what was not counted:", g)
	}
	s.count(190, now.Add(11*time.Second))
	if g := s.growth(measure.Second); g != -10 {
		t.Error(g)
	}
}

// Expensive work becomes rare. One long duration alone does not make it rare.
func TestPace(t *testing.T) {
	now := time.Unix(1e9, 0)
	var p pace
	p.spent(now, 100*time.Microsecond)
	p.spent(now, 50*time.Millisecond)
	if !p.due(now.Add(time.Second)) || p.rests {
		t.Error("rests after one slow time")
	}
	p.spent(now, 40*time.Millisecond)
	if p.due(now.Add(39*time.Second)) || !p.due(now.Add(40*time.Second)) || !p.rests {
		t.Error("40 ms of work should rest for 40 s, until", p.next.Sub(now))
	}
}

func BenchmarkNetCachesRead(b *testing.B) { collecttest.BenchmarkRead(b, Tables{}) }
