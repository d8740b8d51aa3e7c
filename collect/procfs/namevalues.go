package procfs

import "culprit/kernel/proc"

// NameValues parses files of lines "name value", such as /proc/vmstat, memory.stat and, with a
// colon, /proc/meminfo. The lines of such a file come in the same order each time. So Parse first
// tries what it learned about line n, and an unwanted line costs one comparison.
type NameValues struct {
	Slots map[string]int // index of a name's value in dst; names with the same index are added up
	lines []nameLine
	known map[string]string // names of lines, so that to learn one again allocates nothing
}

type nameLine struct {
	name string
	slot int // -1: not wanted
}

// Parse clears dst and seen, then adds the values of the wanted names to dst and sets seen for
// those that exist. It skips lines that are not a name and a number.
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
		c := proc.Scan(line)
		c.Word()
		v := c.Uint()
		if c.Err() == nil {
			dst[slot] += v
			seen[slot] = true
		}
	}
}

// nameIs reports whether the line's first word is name, with or without a colon after it.
func nameIs(line []byte, name string) bool {
	k := len(name)
	if k == 0 || len(line) < k+2 || string(line[:k]) != name {
		return false
	}
	return line[k] == ' ' || line[k] == ':' && line[k+1] == ' '
}

func (n *NameValues) learn(i int, line []byte) int {
	c := proc.Scan(line)
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
		if len(n.known) >= 4096 { // more than any file of the kernel has
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
