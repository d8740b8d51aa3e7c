package network

import (
	"math"
	"testing"
)

// TestParseNeighbourTable has entries, buckets, limit and refusals, and a kernel that does not
// count refusals (ndt_stats of ten words).
func TestParseNeighbourTable(t *testing.T) {
	attribute := func(typ uint16, value []byte) []byte {
		b := native.AppendUint16(nil, uint16(4+len(value)))
		b = append(native.AppendUint16(b, typ), value...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		return b
	}
	message := func(words int) []byte {
		b := append(make([]byte, sizeofNeighbourTable), attribute(1, []byte("arp_cache\x00"))...)
		b = append(b, attribute(4, native.AppendUint32(nil, 1024))...)
		config := make([]byte, 32)
		native.PutUint32(config[4:], 984)
		native.PutUint32(config[20:], 1023)
		var stats []byte
		for i := range words {
			stats = native.AppendUint64(stats, uint64(100+i))
		}
		return append(append(b, attribute(5, config)...), attribute(7, stats)...)
	}
	name, k := parseNeighbourTable(message(11))
	want := neighbourTable{
		ok:        true,
		entries:   984,
		buckets:   1024,
		limit:     1024,
		counts:    true,
		collects:  true,
		refused:   110,
		collected: 109,
	}
	if string(name) != "arp_cache" || k != want {
		t.Errorf("%s %+v, want %+v", name, k, want)
	}
	if _, k := parseNeighbourTable(message(10)); k.counts || !k.collects || k.entries != 984 {
		t.Errorf("without table_fulls: %+v", k)
	}
}

// TestRefusals checks the growth between two readings. It is unknown at the first reading, between
// readings and after a reset.
func TestRefusals(t *testing.T) {
	var r sinceBoot
	for i, tt := range []struct {
		read bool
		n    uint64
		want float64
	}{
		{true, 40, math.NaN()},
		{true, 47, 7},
		{false, 0, math.NaN()},
		{true, 48, 1},
		{true, 3, math.NaN()},
		{true, 5, 2},
	} {
		if tt.read {
			r.count(tt.n)
		}
		if got := r.since(); got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
			t.Errorf("reading %d: %v, want %v", i, got, tt.want)
		}
	}
}
