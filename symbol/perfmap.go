package symbol

import (
	"bytes"
	"cmp"
	"container/heap"
	"math"
	"slices"
	"sort"

	"culprit/kernel/proc"
)

// A compiled is a range of addresses with code of a just-in-time compiler: a function, or the part
// of it that later code has not replaced.
type compiled struct {
	start, end uint64 // the addresses
	from       uint64 // where the function begins, at most start
	order      uint64 // of its line in the file, from 1; greater is later
	name       string
}

// parseCompiled parses a line of /tmp/perf-PID.map: start, size, both hexadecimal, name.
//
//	7f2c5c0a1000 1f4 LazyCompile:*render /app/page.js:12
func parseCompiled(line []byte) (c compiled, ok bool) {
	first := bytes.IndexByte(line, ' ')
	if first < 0 {
		return c, false
	}
	length := bytes.IndexByte(line[first+1:], ' ')
	if length < 0 {
		return c, false
	}
	prefix := []byte("0x")
	start, err1 := proc.ParseHex(bytes.TrimPrefix(line[:first], prefix))
	size, err2 := proc.ParseHex(bytes.TrimPrefix(line[first+1:first+1+length], prefix))
	name := line[first+length+2:]
	if err1 != nil || err2 != nil || size == 0 || start+size < start || len(name) == 0 {
		return c, false
	}
	name = name[:min(len(name), maxCompiledName)]
	return compiled{start: start, end: start + size, from: start, name: clean(string(name))}, true
}

// maxCompiledName is how many bytes of a function's name are kept.
const maxCompiledName = 1 << 10

// addLines appends the functions in the lines of b, which are later than all before, and returns
// what follows the last newline. Malformed lines are left out. With more than twice most functions
// the oldest are dropped.
func addLines(all []compiled, b []byte, order *uint64, most int) ([]compiled, []byte) {
	for {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return all, b
		}
		if c, ok := parseCompiled(b[:end]); ok {
			if len(all) >= 2*most {
				all = newest(layered(all), most)
			}
			*order++
			c.order = *order
			all = append(all, c)
		}
		b = b[end+1:]
	}
}

// newest returns at most most ranges, those with the highest order.
func newest(all []compiled, most int) []compiled {
	if len(all) <= most {
		return all
	}
	if most == 0 {
		return nil
	}
	orders := make([]uint64, len(all))
	for i := range all {
		orders[i] = all[i].order
	}
	slices.Sort(orders)
	least := orders[len(orders)-most]
	kept := slices.DeleteFunc(all, func(c compiled) bool { return c.order < least })
	return kept[:min(len(kept), most)]
}

// layered returns ranges that do not overlap, by address: where some do, the latest one holds, as
// code that is written over other code does. One that is covered in the middle becomes two ranges.
// It reorders all.
//
//	a: 0-100, b: 20-40  ->  a: 0-20, b: 20-40, a: 40-100
func layered(all []compiled) []compiled {
	slices.SortFunc(all, func(a, b compiled) int { return cmp.Compare(a.start, b.start) })
	out := make([]compiled, 0, len(all))
	var open byOrder
	at := uint64(0)
	for i := 0; ; i++ {
		next := uint64(math.MaxUint64)
		if i < len(all) {
			next = all[i].start
		}
		for len(open) > 0 && at < next {
			c := open[0]
			if c.end <= at {
				heap.Pop(&open)
				continue
			}
			to := min(c.end, next)
			out = extend(out, compiled{start: at, end: to, from: c.from, order: c.order,
				name: c.name})
			at = to
		}
		if i == len(all) {
			return out
		}
		at = next
		heap.Push(&open, all[i])
	}
}

// extend appends a range, or lengthens the last one if that is of the same function and adjacent.
func extend(out []compiled, c compiled) []compiled {
	if n := len(out); n > 0 && out[n-1].order == c.order && out[n-1].end == c.start {
		out[n-1].end = c.end
		return out
	}
	return append(out, c)
}

// byOrder is a heap.Interface whose first element is the latest.
type byOrder []compiled

func (h byOrder) Len() int           { return len(h) }
func (h byOrder) Less(i, j int) bool { return h[i].order > h[j].order }
func (h byOrder) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byOrder) Push(x any)        { *h = append(*h, x.(compiled)) }
func (h *byOrder) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// findCompiled returns the range of layered that holds an address.
func findCompiled(all []compiled, addr uint64) (compiled, bool) {
	i := sort.Search(len(all), func(i int) bool { return all[i].start > addr }) - 1
	if i < 0 || addr >= all[i].end {
		return compiled{}, false
	}
	return all[i], true
}
