package profile

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"unsafe"
)

// A stackSet builds a Tree of stacks of a Builder's functions. The Builder has no nodes meanwhile:
// each distinct stack is stored once, four bytes per frame, and all are sorted at the end. The zero
// value is an empty set.
type stackSet struct {
	meter  *meter // nil: nothing is bounded
	seed   maphash.Seed
	blocks [][]uint32
	stacks [][]storedStack // each of stackBlock, except the last
	count  int             // number of stacks
	sorted []int32         // stacks in order; at the end
	slots  []int32         // hash table: index + 1, 0 is free; open addressing, power of two
	cut    int             // number of stacks deeper than MaxDepth
	nodes  []int32         // of each stack, its node; set by tree if it is not nil before
}

// A storedStack is a stack, outermost function first.
type storedStack struct {
	block, from, frames uint32
	hash                uint32
	amount              float64
}

const (
	frameBlock = 16 << 10 // frames in one piece of memory, unless one stack has more
	stackBlock = 1 << 9   // stacks in one piece of memory
)

func (s *stackSet) at(k int32) *storedStack { return &s.stacks[k/stackBlock][k%stackBlock] }

func (s *stackSet) functions(k int32) []uint32 {
	e := s.at(k)
	return s.blocks[e.block][e.from:][:e.frames]
}

// stack returns the index of a stack and stores it when it is new. It copies the functions.
func (s *stackSet) stack(functions []uint32) int32 {
	if len(functions) > MaxDepth {
		functions = functions[:MaxDepth]
		s.cut++
	}
	if s.slots == nil {
		s.seed, s.slots = maphash.MakeSeed(), make([]int32, 1<<10)
	}
	s.meter.visit(len(functions))
	hash := uint32(maphash.Bytes(s.seed, bytesOf(functions)))
	mask := uint32(len(s.slots) - 1)
	i := hash & mask
	for ; s.slots[i] != 0; i = (i + 1) & mask {
		if k := s.slots[i] - 1; s.at(k).hash == hash && slices.Equal(s.functions(k), functions) {
			return k
		}
	}
	s.meter.add(builtStackBytes + 4*len(functions))
	b := len(s.blocks) - 1
	if b < 0 || len(functions) > cap(s.blocks[b])-len(s.blocks[b]) {
		s.blocks = append(s.blocks, make([]uint32, 0, max(frameBlock, len(functions))))
		b++
	}
	from := len(s.blocks[b])
	s.blocks[b] = append(s.blocks[b], functions...)
	if s.count%stackBlock == 0 {
		s.stacks = append(s.stacks, make([]storedStack, 0, stackBlock))
	}
	last := &s.stacks[len(s.stacks)-1]
	*last = append(*last, storedStack{uint32(b), uint32(from), uint32(len(functions)), hash, 0})
	s.count++
	s.slots[i] = int32(s.count)
	if s.count*2 > len(s.slots) {
		s.grow()
	}
	return int32(s.count) - 1
}

func (s *stackSet) grow() {
	s.slots = make([]int32, 2*len(s.slots))
	mask := uint32(len(s.slots) - 1)
	for k := range int32(s.count) {
		i := s.at(k).hash & mask
		for s.slots[i] != 0 {
			i = (i + 1) & mask
		}
		s.slots[i] = k + 1
	}
}

// bytesOf returns the bytes of v in memory.
func bytesOf(v []uint32) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))
}

// add adds an amount to a stack. It ignores NaN, infinity and amounts below 0.
func (s *stackSet) add(stack int32, amount float64) {
	if amount > 0 && !math.IsInf(amount, 1) {
		s.at(stack).amount += amount
	}
}

// tree returns the tree, sorted by names, without nodes that have less than the given share of the
// whole. The set and the builder must not be used afterwards, but for nodes.
func (s *stackSet) tree(b *Builder, least float64) *Tree {
	t := b.tree
	b.edges, b.names, b.often, b.tree, s.slots = nil, nil, nil, nil, nil
	byName := s.order(t)
	whole := 0.0
	for k := range int32(s.count) {
		whole += s.at(k).amount
	}
	least *= whole
	// A node's total is known after all its callees, so a first walk counts the remaining nodes.
	nodes, deepest := 1, 0
	open := []float64{0} // totals of the nodes on the current path
	s.walk(func(uint32) {
		open = append(open, 0)
		deepest = max(deepest, len(open))
	}, func(k int32) { open[len(open)-1] += s.at(k).amount }, func() {
		total := open[len(open)-1]
		open = open[:len(open)-1]
		open[len(open)-1] += total
		if total >= least {
			nodes++
			t.Depth = max(t.Depth, len(open))
		}
	})
	s.meter.add(24 * nodes)
	nodes += deepest // nodes on the path exist before their total is known
	t.Function, t.Parent, t.Self, t.Total = make([]uint32, 1, nodes), make([]int32, 1,
		nodes), make([]float64, 1, nodes), make([]float64, 1, nodes)
	t.Parent[0] = -1
	at, placed := int32(0), 0 // placed counts the stacks of the walk so far
	s.walk(func(f uint32) {
		t.Function, t.Parent, t.Self, t.Total = append(t.Function, byName[f]), append(t.Parent,
			at), append(t.Self, 0), append(t.Total, 0)
		at = int32(len(t.Parent) - 1)
	}, func(k int32) {
		t.Self[at] += s.at(k).amount
		t.Total[at] += s.at(k).amount
		if placed++; s.nodes != nil {
			s.nodes[k] = at
		}
	}, func() {
		n, total := at, t.Total[at]
		at = t.Parent[n]
		t.Total[at] += total
		if total < least { // its callees have less and were removed already
			t.Function, t.Parent = t.Function[:n], t.Parent[:n]
			t.Self, t.Total = t.Self[:n], t.Total[:n]
			for i := placed - 1; s.nodes != nil && i >= 0 && s.nodes[s.sorted[i]] == n; i-- {
				s.nodes[s.sorted[i]] = at
			}
		}
	})
	if s.cut > 0 {
		t.note(
			plural(s.cut, "stack is", "stacks are") + " deeper than 65,536 frames, and cut there",
		)
	}
	s.stacks, s.blocks, s.sorted = nil, nil, nil
	return t
}

// walk visits the tree of the sorted stacks in depth-first order.
func (s *stackSet) walk(enter func(function uint32), add func(stack int32), leave func()) {
	var last []uint32
	for _, k := range s.sorted {
		now := s.functions(k)
		same := commonFrames(last, now)
		for range last[same:] {
			leave()
		}
		for _, f := range now[same:] {
			enter(f)
		}
		add(k)
		last = now
	}
	for range last {
		leave()
	}
}

// order sorts the stacks and replaces their functions by ranks. It returns the function of each
// rank.
func (s *stackSet) order(t *Tree) []uint32 {
	byName := make([]uint32, len(t.Functions))
	for i := range byName {
		byName[i] = uint32(i)
	}
	slices.SortFunc(byName, func(a, b uint32) int { return compareFunctions(t.Functions, a, b) })
	rank := make([]uint32, len(byName))
	for i, f := range byName {
		rank[f] = uint32(i)
	}
	for _, b := range s.blocks {
		for i, f := range b {
			b[i] = rank[f]
		}
	}
	s.sorted = make([]int32, s.count)
	for k := range s.sorted {
		s.sorted[k] = int32(k)
	}
	slices.SortFunc(s.sorted,
		func(a, b int32) int { return slices.Compare(s.functions(a), s.functions(b)) })
	return byName
}

// compareFunctions orders functions by name, module and kind.
func compareFunctions(all []Function, a, b uint32) int {
	f, g := &all[a], &all[b]
	return cmp.Or(cmp.Compare(f.Name, g.Name), cmp.Compare(f.Module, g.Module),
		cmp.Compare(f.Kind, g.Kind), cmp.Compare(a, b))
}

// commonFrames returns the number of frames that two stacks share, outermost first.
func commonFrames(a, b []uint32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
