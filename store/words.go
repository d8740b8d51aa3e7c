package store

import "slices"

// words is a dictionary of texts, numbered in order of arrival.
type words struct {
	at    map[string]uint32
	texts []string
	bytes int
}

func (w *words) of(s string) uint32 {
	if len(w.at) < len(w.texts) { // texts that were added without at
		if w.at == nil {
			w.at = make(map[string]uint32, len(w.texts)+1)
		}
		for n, t := range w.texts {
			w.at[t] = uint32(n)
		}
	}
	if n, ok := w.at[s]; ok {
		return n
	}
	if w.at == nil {
		w.at = map[string]uint32{}
	}
	n := uint32(len(w.texts))
	w.at[s] = n
	w.texts = append(w.texts, s)
	w.bytes += len(s) + 48
	return n
}

// table is a set of keys of width numbers each, numbered in order of arrival. Keys are adjacent in
// memory and found by hashing. slots has a power of two elements and is at least half empty; a slot
// contains 1 + the number of a key, or 0.
type table struct {
	width int
	n     int
	keys  []uint32
	slots []uint32
}

func (t *table) key(i int) []uint32 { return t.keys[i*t.width : (i+1)*t.width : (i+1)*t.width] }

func (t *table) hash(key []uint32) uint32 {
	h := uint64(14695981039346656037)
	for _, l := range key {
		h = (h ^ uint64(l)) * 1099511628211
	}
	return uint32(h ^ h>>32) // FNV mixes upwards only
}

// find returns the number of a key, or -1.
func (t *table) find(key []uint32) int {
	if t.n == 0 {
		return -1
	}
	if len(t.slots) == 0 { // keys that were added without slots
		t.spread(2 * t.n)
	}
	mask := uint32(len(t.slots) - 1)
	for at := t.hash(key); ; at++ {
		s := t.slots[at&mask]
		if s == 0 {
			return -1
		}
		if slices.Equal(t.key(int(s-1)), key) {
			return int(s - 1)
		}
	}
}

// row returns the number of a key, and whether it was added.
func (t *table) row(key []uint32) (int, bool) {
	if i := t.find(key); i >= 0 {
		return i, false
	}
	if 2*(t.n+1) > len(t.slots) {
		t.spread(2 * len(t.slots))
	}
	t.keys = append(t.keys, key...)
	t.n++
	t.enter(t.n - 1)
	return t.n - 1, true
}

// spread resizes slots to a power of two, at least twice the wanted number.
func (t *table) spread(wanted int) {
	size := 16
	for size < 2*wanted {
		size *= 2
	}
	t.slots = zeroed(&t.slots, size)
	for i := range t.n {
		t.enter(i)
	}
}

func (t *table) enter(i int) {
	mask := uint32(len(t.slots) - 1)
	at := t.hash(t.key(i))
	for ; t.slots[at&mask] != 0; at++ {
	}
	t.slots[at&mask] = uint32(i + 1)
}

// node is one frame of a stack: the caller's node, or -1, and its code position.
type node struct {
	parent         int32
	symbol, module uint32 // words
	offset         uint64
}

// trie contains stacks as nodes, callers before callees. slots is used as in table; nodes that were
// added without slots are entered by the first lookup.
type trie struct {
	nodes []node
	slots []uint32
}

func (n *node) hash() uint32 {
	// 2^64 / golden ratio: each bit in a product's upper half depends on all lower bits
	const mix = 0x9e3779b97f4a7c15
	h := (uint64(uint32(n.parent))<<32 | uint64(n.symbol)) * mix
	h = (h ^ h>>29 ^ uint64(n.module)<<32 ^ n.offset) * mix
	return uint32(h >> 32)
}

// find returns the number of a node; false when there is none.
func (t *trie) find(n node) (uint32, bool) {
	if 2*len(t.nodes) > len(t.slots) {
		t.spread(2 * len(t.nodes))
	}
	if len(t.slots) == 0 {
		return 0, false
	}
	mask := uint32(len(t.slots) - 1)
	for at := n.hash(); ; at++ {
		s := t.slots[at&mask]
		if s == 0 {
			return 0, false
		}
		if t.nodes[s-1] == n {
			return s - 1, true
		}
	}
}

// spread allocates at least slots slots and enters all nodes.
func (t *trie) spread(slots int) {
	size := 64
	for size < slots {
		size *= 2
	}
	t.slots = make([]uint32, size)
	for i := range t.nodes {
		t.enter(uint32(i))
	}
}

func (t *trie) enter(i uint32) {
	mask := uint32(len(t.slots) - 1)
	at := t.nodes[i].hash()
	for ; t.slots[at&mask] != 0; at++ {
	}
	t.slots[at&mask] = i + 1
}

// of returns the number of a node, which it adds if necessary.
func (t *trie) of(n node) uint32 {
	if i, ok := t.find(n); ok {
		return i
	}
	i := uint32(len(t.nodes))
	t.nodes = append(t.nodes, n)
	if 2*len(t.nodes) > len(t.slots) {
		t.spread(4 * len(t.nodes))
	} else {
		t.enter(i)
	}
	return i
}

// addAll adds all nodes of a block, callers before callees; into receives 1 + the number of each.
// Blocks have similar nodes in a similar order, so the successor of a node in one block mostly is
// its successor in the other.
func (t *trie) addAll(nodes []node, into []uint32, word func(uint32) uint32) {
	if len(t.nodes) == 0 {
		t.nodes = slices.Grow(t.nodes, len(nodes))
	}
	last := uint32(len(t.nodes))
	for i, n := range nodes {
		if n.parent >= 0 {
			n.parent = int32(into[n.parent]) - 1
		}
		n.symbol, n.module = word(n.symbol), word(n.module)
		if next := last + 1; next < uint32(len(t.nodes)) && t.nodes[next] == n {
			last = next
		} else {
			last = t.of(n)
		}
		into[i] = last + 1
	}
}
