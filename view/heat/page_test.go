package heat

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"testing"

	"culprit/measure"
)

var update = flag.Bool("update", false, "rewrite ui/data/testdata/heat.json") // table: a flag

// pageMap is a map as the test of the page reads it: distributions, and what they must come to.
type pageMap struct {
	Base    uint8        `json:"base"`
	Columns []pageColumn `json:"columns"`
	Crops   []pageCrop   `json:"crops"`
}

type pageColumn struct {
	ElapsedMS int64    `json:"elapsed_ms"`
	First     int32    `json:"first"`
	Counts    []uint64 `json:"counts"`
	Total     uint64   `json:"total"`
	P50       *float64 `json:"p50"` // null without events
	P90       *float64 `json:"p90"`
	P99       *float64 `json:"p99"`
	Max       *float64 `json:"max"`
}

type pageCrop struct {
	Share float64 `json:"share"`
	End   int32   `json:"end"`
	Cut   uint64  `json:"cut"`
}

// TestThePageHasTheSameNumbers compares the numbers of maps with a file that the test of the page,
// ui/data/heatmap.test.ts, compares with its own.
func TestThePageHasTheSameNumbers(t *testing.T) {
	const path = "../../ui/data/testdata/heat.json"
	r := rand.New(rand.NewPCG(7, 11))
	var all []pageMap
	for _, base := range []uint8{0, 2, 4} {
		dists := make([]measure.Dist, 12)
		elapsed := make([]measure.Span, len(dists))
		for c := range dists {
			dists[c].Base = base
			if c%5 == 3 {
				continue // a gap
			}
			elapsed[c] = measure.Second
			for range r.IntN(30) {
				dists[c].Add(r.Uint64N(1<<(1+r.IntN(42))), 1+r.Uint64N(50))
			}
		}
		m, err := New(answer(elapsed, map[string][]measure.Dist{"a": dists}), 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pageOf(m))
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != string(want) {
		t.Errorf("%s has other numbers: run with -update, then the test of the page", path)
	}
}

func pageOf(m *Map) pageMap {
	p := pageMap{Base: m.Base}
	known := func(v float64) *float64 {
		if v != v {
			return nil
		}
		return &v
	}
	for i := range m.Columns {
		c := &m.Columns[i]
		l := c.Lines()
		p.Columns = append(p.Columns, pageColumn{
			int64(c.Elapsed / measure.Millisecond), c.Dist.First, c.Dist.Counts, c.Dist.Count(),
			known(l.P50), known(l.P90), known(l.P99), known(l.Max),
		})
	}
	for _, share := range []float64{0, 0.001, 0.01, 0.05, 0.5} {
		end, cut := m.Crop(share)
		p.Crops = append(p.Crops, pageCrop{share, end, cut})
	}
	return p
}
