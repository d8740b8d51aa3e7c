package symbol

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"culprit/kernel"
)

// A compiled is a piece of code that a just-in-time compiler made.
type compiled struct {
	start, size uint64
	name        string
}

// maxCompiled is how many pieces of code of one process are kept.
const maxCompiled = 1 << 20

// parsePerfMap reads the format of /tmp/perf-PID.map, in which what is compiled later may take the place of what was there:
//
//	7f2c5c0a1000 1f4 LazyCompile:*render /app/page.js:12
//
// It gives the pieces in the order of their addresses, of several for one start the one that stands last in the file. Lines
// of another form, and one that is not written to its end yet, are left out.
func parsePerfMap(b []byte) []compiled {
	var out []compiled
	for len(b) > 0 && len(out) < maxCompiled {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			break
		}
		line := b[:end]
		b = b[end+1:]
		first := bytes.IndexByte(line, ' ')
		if first < 0 {
			continue
		}
		second := bytes.IndexByte(line[first+1:], ' ')
		if second < 0 {
			continue
		}
		start, err1 := kernel.ParseHex(bytes.TrimPrefix(line[:first], []byte("0x")))
		size, err2 := kernel.ParseHex(bytes.TrimPrefix(line[first+1:first+1+second], []byte("0x")))
		name := line[first+second+2:]
		if err1 != nil || err2 != nil || size == 0 || start+size < start || len(name) == 0 {
			continue
		}
		out = append(out, compiled{start, size, clean(string(name))})
	}
	slices.SortStableFunc(out, func(a, b compiled) int { return cmp.Compare(a.start, b.start) })
	kept := out[:0]
	for _, c := range out {
		if n := len(kept); n > 0 && kept[n-1].start == c.start {
			kept[n-1] = c
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

func findCompiled(all []compiled, addr uint64) (compiled, bool) {
	i := sort.Search(len(all), func(i int) bool { return all[i].start > addr }) - 1
	if i < 0 || addr-all[i].start >= all[i].size {
		return compiled{}, false
	}
	return all[i], true
}
