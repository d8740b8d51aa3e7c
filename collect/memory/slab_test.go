package memory

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"culprit/measure"
)

func TestSlabLine(t *testing.T) {
	const line = "dentry %d 21 192 %d 3 : tunables 0 0 0 : slabdata 17 %d 0"
	for _, tt := range []struct {
		line           string
		objects, pages uint64
		ok             bool
	}{
		{fmt.Sprintf(line, 7, 5, 11), 7, 33, true},
		{fmt.Sprintf(line, 0, 5, 0), 0, 0, true},
		{fmt.Sprintf(line, 7, 5, uint64(1)<<40-1), 7, 3 * (1<<40 - 1), true},
		{fmt.Sprintf(line, 7, 5, uint64(1)<<40), 0, 0, false},
		{"dentry 7 21 192 5 65535 : slabdata 17 2 0", 7, 2 * 65535, true},
		{"dentry 7 21 192 5 65536 : slabdata 17 2 0", 0, 0, false},
		{"dentry 7 21 192 5 3 : tunables 0 0 0", 0, 0, false},
		{"dentry x 21 192 5 3 : slabdata 17 11 0", 0, 0, false},
		{"# name 7 21 192 5 3 : slabdata 17 11 0", 0, 0, false},
		{"slabinfo - version: 2.1", 0, 0, false},
		{"", 0, 0, false},
	} {
		name, objects, pages, ok := parseSlabLine([]byte(tt.line))
		if ok != tt.ok || ok && (string(name) != "dentry" || objects != tt.objects ||
			pages != tt.pages) {
			t.Errorf("%q: %s, %d objects, %d pages, %v, want %d, %d, %v", tt.line, name, objects,
				pages, ok, tt.objects, tt.pages, tt.ok)
		}
	}
}

// TestSlabGrowth reads tables whose caches come, go and change places. A cache grows per
// nanosecond since the reading before; without one, or without time, its growth is unknown.
func TestSlabGrowth(t *testing.T) {
	var table slabTable
	for n, step := range []struct {
		age  measure.Span
		rows string // pairs of name and objects
		want string
	}{
		{0, "a 10 b 20 c 30", "a NaN b NaN c NaN"},
		{10, "a 15 b 20 c 10", "a 0.5 b 0 c -2"},
		{20, "b 30 d 7 a 15", "b 0.5 d NaN a 0"},
		{0, "b 31 d 8", "b NaN d NaN"},
		{4, "d 10 b 31", "d 0.5 b 0"},
	} {
		text := "slabinfo - version: 2.1\n# name <active_objs>\n"
		words := strings.Fields(step.rows)
		for i := 0; i < len(words); i += 2 {
			text += words[i] + " " + words[i+1] + " 0 0 0 1 : slabdata 0 2 0\n"
		}
		table.age = step.age
		table.take([]byte(text))
		var got []string
		for _, row := range table.rows {
			got = append(got, fmt.Sprint(strings.TrimPrefix(row.name, "slab:"), " ", row.grown))
		}
		if strings.Join(got, " ") != step.want || table.age != 0 || table.readings != n+1 {
			t.Errorf("reading %d: %s, want %s; age %d", table.readings, got, step.want, table.age)
		}
	}
}

func TestHashMessage(t *testing.T) {
	const dentry = "6,5,0,-;Dentry cache hash table entries: 4194304 (order: 13, linear)\n"
	for _, tt := range []struct {
		text, cache string
		entries     float64
		ok          bool
	}{
		{dentry, "dentry", 4194304, true},
		{"6,6,0,-;Inode-cache hash table entries: 17 (order: 1)\n", "inode", 17, true},
		{"6,6,0,-;Inode-cache hash table entries: 0 (order: 1)\n", "inode", 0, false},
		{"6,6,0,-;Inode-cache hash table entries: many\n", "inode", 0, false},
		{"6,6,0,-;TCP bind hash table entries: 65536\n", "", 0, false},
	} {
		cache, entries, ok := parseHashMessage([]byte(tt.text))
		if ok != tt.ok || ok && (cache != tt.cache || entries != tt.entries) {
			t.Errorf("%q: %s has %v entries, %v", tt.text, cache, entries, ok)
		}
	}
}

func TestCacheNumbers(t *testing.T) {
	for text, want := range map[string][]uint64{
		"": {}, "7": {7}, "7\t8\n": {7, 8}, "7 8 9 10": {7, 8, 9}, "7 x 9": {7}, "x": {},
	} {
		dst := [3]uint64{99, 99, 99}
		n := parseNumbers(dst[:], []byte(text))
		if fmt.Sprint(dst[:n]) != fmt.Sprint(want) {
			t.Errorf("%q has the numbers %v, want %v", text, dst[:n], want)
		}
	}
}

// TestBelievable checks sizes as large as their whole, one more, and above what a machine
// addresses.
func TestBelievable(t *testing.T) {
	r := &memoryReading{
		kinds: []string{"total", "free", "vmalloc"}, whole: []int{-1, 0, -1},
		pages: []bool{false, true, false}, values: []uint64{10, 10, 0}, seen: []bool{true, true, true},
	}
	for _, tt := range []struct {
		kind int
		free uint64
		size float64
		want bool
	}{
		{0, 10, mostMemory, true}, {0, 10, math.Nextafter(mostMemory, math.Inf(1)), false},
		{2, 10, 2 * mostMemory, true}, {1, 10, 1, true}, {1, 11, 1, false}, {1, 0, 1, true},
	} {
		r.values[1] = tt.free
		if got := r.believable(tt.kind, tt.size); got != tt.want {
			t.Errorf("%s of %v, %d pages: %v", r.kinds[tt.kind], tt.size, tt.free, got)
		}
	}
	r.seen[0], r.values[1] = false, 99
	if !r.believable(1, 1) {
		t.Error("without its whole a part is impossible")
	}
}
