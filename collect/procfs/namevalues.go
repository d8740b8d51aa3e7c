package procfs

import "culprit/kernel"

// NameValues reads files of lines "name value", as /proc/vmstat, memory.stat and (with a colon) /proc/meminfo. A file of one kernel has
// its lines in the same order each time, so what was learnt about line n at the last reading is tried first and a
// line that nobody wants costs a comparison.
type NameValues struct {
	Slots map[string]int // where a name's value goes; several names may share a slot, which then is their sum
	lines []nameLine
	known map[string]string // names of lines, so that learning one again allocates nothing
}

type nameLine struct {
	name string
	slot int // -1: not wanted
}

// Parse adds up the values of the wanted names in dst, by slot, and marks in seen those that were there. Both are cleared first. A
// line that is no name and number is passed over.
func (n *NameValues) Parse(b []byte, dst []uint64, seen []bool) {
	clear(dst)
	clear(seen)
	for i := 0; len(b) > 0; i++ {
		var line []byte
		line, b = CutLine(b)
		slot := -1
		if i < len(n.lines) && nameIs(line, n.lines[i].name) {
			slot = n.lines[i].slot
		} else {
			slot = n.learn(i, line)
		}
		if slot < 0 {
			continue
		}
		c := kernel.Scan(line)
		c.Word()
		v := c.Uint()
		if c.Err() == nil {
			dst[slot] += v
			seen[slot] = true
		}
	}
}

// nameIs says whether the line's first word is name, with or without a colon behind it.
func nameIs(line []byte, name string) bool {
	k := len(name)
	if k == 0 || len(line) < k+2 || string(line[:k]) != name {
		return false
	}
	return line[k] == ' ' || line[k] == ':' && line[k+1] == ' '
}

func (n *NameValues) learn(i int, line []byte) int {
	c := kernel.Scan(line)
	w := c.Word()
	if len(w) > 0 && w[len(w)-1] == ':' {
		w = w[:len(w)-1]
	}
	slot, ok := n.Slots[string(w)]
	if !ok {
		slot = -1
	}
	name, had := n.known[string(w)]
	if !had {
		if len(n.known) >= 4096 { // no file of the kernel has so many
			return slot
		}
		if n.known == nil {
			n.known = map[string]string{}
		}
		name = string(w)
		n.known[name] = name
	}
	switch {
	case i < len(n.lines):
		n.lines[i] = nameLine{name, slot}
	case i == len(n.lines) && i < 4096:
		n.lines = append(n.lines, nameLine{name, slot})
	}
	return slot
}
