package memory

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/heapbound"
)

func FuzzCacheFiles(f *testing.F) {
	f.Add([]byte("dentry  5 6 192 21 1 : tunables 0 0 0 : slabdata 3 4 0"))
	f.Add([]byte("63808\t62176\t45\t0\t10756\t-1"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		if _, _, pages, ok := parseSlabLine(b); ok && pages > 1<<56 {
			t.Fatal(pages)
		}
		var v [6]uint64
		parseNumbers(v[:], b)
		parseHashMessage(b)
	})
}

func TestCaches(t *testing.T) {
	files := map[string]string{
		"proc/sys/fs/dentry-state": "63808\t62176\t45\t0\t10756\t0\n",
		"proc/sys/fs/inode-state":  "52894\t0\t0\t0\t0\t0\t0\n",
		"proc/sys/fs/file-nr":      "593\t0\t2466177\n",
		"proc/slabinfo": "slabinfo - version: 2.1\n# name            <active_objs> " +
			"<num_objs>\ndentry  5 6 192 21 2 : tunables    0    0    0 : slabdata      3      " +
			"4      0\n",
	}
	m := collecttest.NewMachine(t, Caches{}, files)
	level := map[string]float64{
		"cache.entries||dentry":          63808,
		"cache.entries||dentry-unused":   62176,
		"cache.entries||dentry-negative": 10756,
		"cache.entries||inode":           52894,
		"cache.entries||inode-unused":    0,
		"cache.entries||file":            593,
		"cache.entries||slab:dentry":     5,
	}
	rows := m.Read(true)
	collecttest.Expect(t, rows, "cache.entries", level)
	collecttest.Expect(t, rows, "cache.limit", map[string]float64{"cache.limit||file": 2466177})
	collecttest.Expect(
		t, rows, "cache.bytes",
		map[string]float64{"cache.bytes||slab:dentry": float64(8 * os.Getpagesize())},
	)
	collecttest.Expect(t, rows, "cache.growth", nil)
	collecttest.Expect(t, rows, "cache.buckets", nil)
	m.Put(map[string]string{"proc/sys/fs/file-nr": "590\t0\t2466177\n"})
	collecttest.Expect(
		t,
		m.Read(false),
		"cache.growth",
		map[string]float64{
			"cache.growth||dentry":          0,
			"cache.growth||dentry-unused":   0,
			"cache.growth||dentry-negative": 0,
			"cache.growth||inode":           0,
			"cache.growth||inode-unused":    0,
			"cache.growth||file":            -3,
			"cache.growth||slab:dentry":     0,
		},
	)
	if !strings.Contains(m.Notes(), "boot messages") {
		t.Errorf("notes %q", m.Notes())
	}
	if name, n, ok := parseHashMessage([]byte("6,23,0,-;Dentry cache hash table entries: " +
		"4194304 (order: 13, 33554432 bytes, linear)\n")); name != "dentry" || n != 4194304 || !ok {
		t.Error(name, n, ok)
	}
}

// Slabs are expensive. The first two readings are always taken, later ones only as often as their
// duration allows. Between readings the last sizes are repeated and growth is unknown. The next
// reading has the mean growth since the last.
func TestSlabsBetweenReadings(t *testing.T) {
	line := func(objects int) map[string]string {
		return map[string]string{"proc/slabinfo": fmt.Sprintf("kmalloc-8 7 7 8 1 1 : tunables "+
			"0 0 0 : slabdata 1 1 0\ndentry  %d 6 192 21 2 : tunables    0    0    0 : "+
			"slabdata      3      4      0\n", objects)}
	}
	m := collecttest.NewMachine(t, Caches{}, line(5))
	slabs := &m.Reading.(*cacheReading).slabTable
	m.Read(true)
	m.Put(line(15))
	rows := m.Read(false)
	if g := rows["cache.growth||slab:dentry"]; math.Abs(g-10) > 1e-6 {
		t.Errorf("growth %v, want 10", g)
	}
	first := m.Out.Over().Span()
	slabs.due = time.Now().Add(time.Hour)
	m.Put(line(115))
	rows = m.Read(false)
	if rows["cache.entries||slab:dentry"] != 15 ||
		rows["cache.growth||slab:dentry"] == rows["cache.growth||slab:dentry"] ||
		!strings.Contains(m.Notes(), "between readings") {
		t.Errorf("between readings: %v, notes %q", rows, m.Notes())
	}
	between := m.Out.Over().Span()
	slabs.due = time.Time{}
	rows = m.Read(false)
	want := 100 * float64(m.Out.Over().Span()) / float64(between+m.Out.Over().Span())
	if g := rows["cache.growth||slab:dentry"]; rows["cache.entries||slab:dentry"] != 115 ||
		math.Abs(g-want) > 1e-6 ||
		g >= 100 {
		t.Errorf(
			"after readings %v and %v apart: %v entries, growth %v, want %v", first, between,
			rows["cache.entries||slab:dentry"], g, want,
		)
	}
	if slabs.readings != 3 {
		t.Errorf("%d readings, want 3", slabs.readings)
	}
}

// Slabs are expensive and must not be read without cache.bytes.
func TestSlabsOnlyWhenWanted(t *testing.T) {
	m := collecttest.NewMachine(t, Caches{}, map[string]string{"proc/slabinfo": "slab\n"})
	r, err := Caches{}.Open(&m.Env, collect.Want{"cache.entries": {"cache": true}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.(*cacheReading).slabs != nil {
		t.Error("slabinfo was opened")
	}
}
