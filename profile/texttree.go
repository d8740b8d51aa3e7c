package profile

import (
	"bytes"
	"hash/maphash"
	"math"
	"math/bits"
	"unsafe"
)

// A textTree builds a Tree of stacks in text form: outermost;...;innermost. Use newTextTree.
//
// Calls that several stacks share are nodes. The part of a stack that no other stack shares is a
// single node with a tail: the rest of its text, which is not parsed until another stack shares a
// part of it. In a profile of a million stacks most calls are in tails.
//
//	a;b;c;d 1    node a, tail ;b;c;d
//	a;b;x 2      node a - node b - node c, tail ;d
//	                             - node x
//
// Nodes are found by a hash of the text of their stack. Its 96 bits are taken as the identity. All
// prefixes of a node's stack are nodes too, so a binary search finds the innermost known one. The
// prefix that a stack shares with the stack before it needs no search.
type textTree struct {
	meter  *meter // nil: nothing is bounded
	seed   maphash.Seed
	nodes  []textNode
	self   []float64 // of the node, or of the end of its tail
	blocks [][]byte  // of text
	slots  []stackSlot
	cut    int // number of stacks deeper than MaxDepth

	last  []byte  // the text of the newest stack
	ends  []int   // the end of each frame in last, as far as it was parsed
	paths []stack // the hash of each prefix of last, as far as it was needed
	deep  int     // number of frames of last that lead to node
	node  int32   // the innermost of last; the rest of last is its tail
}

// A textNode is a node of a textTree, after its caller; node 0 is the root. Its text is the
// function's name followed by the tail: for each further function a semicolon and the name.
type textNode struct {
	parent      int32
	block, from uint32
	name, tail  uint32 // bytes; a node with callees has no tail
}

// textBlock is the size of a block of text. A longer stack has a block of its own.
const textBlock = 256 << 10

// A stack is the hash of a stack's text. The zero value is that of the empty stack.
type stack struct{ a, b uint64 }

// A stackSlot is a slot of the hash table of nodes: open addressing by a.
type stackSlot struct {
	a    uint64
	b    uint32
	node int32 // 0: free
}

// then returns the hash of a stack that is extended by a name with the given hash.
func (s stack) then(name uint64) stack {
	high, low := bits.Mul64(s.a^name, 0x9e3779b97f4a7c15)
	return stack{high ^ low, (bits.RotateLeft64(s.b, 23) ^ name) * 0xd6e8feb86659fd93}
}

func newTextTree(m *meter) *textTree {
	return &textTree{meter: m, seed: maphash.MakeSeed(), nodes: make([]textNode, 1),
		self: make([]float64, 1), slots: make([]stackSlot, 1<<10)}
}

// add adds an amount to a stack. It ignores amounts that are not above 0, and copies the bytes.
func (p *textTree) add(text []byte, amount float64) {
	if !(amount > 0) || math.IsInf(amount, 1) {
		amount = 0
	}
	if len(text) >= MaxDepth && bytes.Count(text, []byte{';'}) >= MaxDepth {
		text = text[:endOfFrame(text, MaxDepth)]
		p.cut++
	}
	common := commonPrefix(text, p.last)
	same := len(p.ends) // number of frames within the common prefix
	for same > 0 {
		end := p.ends[same-1]
		if end < common && end < len(text) ||
			end == common && (end == len(text) || text[end] == ';') {
			break
		}
		same--
	}
	p.ends, p.paths = p.ends[:same], p.paths[:min(same, len(p.paths))]
	p.last = append(p.last[:common], text[common:]...)
	if same < p.deep || p.nodes[p.node].tail == 0 { // otherwise it has no callees
		p.find(min(same, p.deep))
	}
	p.grow(amount)
}

// endOfFrame returns the end of the nth frame, counted from 1.
func endOfFrame(text []byte, n int) int {
	at := -1
	for range n {
		i := bytes.IndexByte(text[at+1:], ';')
		if i < 0 {
			return len(text)
		}
		at += 1 + i
	}
	return at
}

// frame parses the first n frames and reports whether the stack has them.
func (p *textTree) frame(n int) bool {
	for len(p.ends) < n {
		at := 0
		if k := len(p.ends); k > 0 {
			at = p.ends[k-1] + 1
		}
		if at > len(p.last) || len(p.last) == 0 {
			return false
		}
		end := bytes.IndexByte(p.last[at:], ';')
		if end < 0 {
			end = len(p.last) - at
		}
		p.ends = append(p.ends, at+end)
	}
	return true
}

// name returns the text of the nth frame, counted from 1, which was parsed.
func (p *textTree) name(n int) []byte {
	if n == 1 {
		return p.last[:p.ends[0]]
	}
	return p.last[p.ends[n-2]+1 : p.ends[n-1]]
}

// path returns the hash of the first n frames, which were parsed.
func (p *textTree) path(n int) stack {
	var s stack
	if k := len(p.paths); k > 0 {
		s = p.paths[min(n, k)-1]
	}
	for k := len(p.paths) + 1; k <= n; k++ {
		s = s.then(maphash.Bytes(p.seed, p.name(k)))
		p.paths = append(p.paths, s)
	}
	return s
}

// at returns the node of the first n frames. It reports false when the stack has fewer frames or no
// earlier stack has them.
func (p *textTree) at(n int) (int32, bool) {
	if n == 0 {
		return 0, true
	}
	if !p.frame(n) {
		return 0, false
	}
	s := p.path(n)
	b, mask := uint32(s.b>>32), uint64(len(p.slots)-1)
	for i := s.a & mask; ; i = (i + 1) & mask {
		slot := &p.slots[i]
		if slot.a == s.a && slot.b == b && slot.node != 0 {
			return slot.node, true
		}
		if slot.node == 0 {
			return 0, false
		}
	}
}

// find sets node to the innermost known node of the stack, and deep to its number of frames. The
// first known frames are known to have a node. The search starts at the depth of the stack before
// and continues in doubling steps, then by bisection.
func (p *textTree) find(known int) {
	low, node := known, int32(0)
	try, step := max(p.deep-1, low+1), 1
	n, ok := p.at(try)
	high := try
	if ok {
		for ; ok; n, ok = p.at(try) {
			low, node = try, n
			try, step = try+step, 2*step
		}
		high = try
	} else {
		for !ok && high-step > known {
			try, step = high-step, 2*step
			if n, ok = p.at(try); ok {
				low, node = try, n
			} else {
				high = try
			}
		}
	}
	for high-low > 1 {
		try = low + (high-low)/2
		if n, ok = p.at(try); ok {
			low, node = try, n
		} else {
			high = try
		}
	}
	if low == known {
		node, _ = p.at(low)
	}
	p.node, p.deep = node, low
}

// grow adds an amount to the stack, whose innermost known node was found.
func (p *textTree) grow(amount float64) {
	rest := p.last
	if p.deep > 0 {
		rest = p.last[p.ends[p.deep-1]:]
	}
	if tail := p.tail(p.node); len(tail) > 0 {
		common := commonPrefix(tail, rest)
		switch atEnd, restEnds := common == len(tail), common == len(rest); {
		case atEnd && restEnds: // the same stack again
			p.self[p.node] += amount
			return
		case (atEnd || tail[common] == ';') && (restEnds || rest[common] == ';'):
		default:
			common = bytes.LastIndexByte(tail[:common], ';')
		}
		p.split(common)
		rest = rest[common:]
	}
	if len(rest) == 0 {
		p.self[p.node] += amount
		return
	}
	if p.deep > 0 {
		rest = rest[1:]
	}
	k := len(p.blocks) - 1
	if k < 0 || len(rest) > cap(p.blocks[k])-len(p.blocks[k]) {
		p.blocks = append(p.blocks, make([]byte, 0, max(textBlock, len(rest))))
		k++
	}
	p.meter.add(len(rest))
	from := len(p.blocks[k])
	p.blocks[k] = append(p.blocks[k], rest...)
	p.deep++
	p.frame(p.deep)
	name := len(p.name(p.deep))
	p.node = p.insert(p.path(p.deep), textNode{
		parent: p.node, block: uint32(k), from: uint32(from),
		name: uint32(name), tail: uint32(len(rest) - name),
	}, amount)
}

// text returns the name of a node's function and its tail.
func (p *textTree) text(node int32) []byte {
	n := &p.nodes[node]
	return p.blocks[n.block][n.from : n.from+n.name+n.tail]
}

func (p *textTree) tail(node int32) []byte {
	if p.nodes[node].tail == 0 {
		return nil
	}
	return p.text(node)[p.nodes[node].name:]
}

// split makes a node of each function in the first bytes of the node's tail, which the stack
// shares, and one of the next function, which gets the rest of the tail.
func (p *textTree) split(common int) {
	tail, amount, n := p.tail(p.node), p.self[p.node], p.nodes[p.node]
	p.self[p.node], p.nodes[p.node].tail = 0, 0
	at := 0
	n.from += n.name
	for at < common {
		p.deep++
		p.frame(p.deep)
		name := len(p.name(p.deep))
		p.node = p.insert(p.path(p.deep), textNode{
			parent: p.node, block: n.block, from: n.from + uint32(at) + 1, name: uint32(name),
		}, 0)
		at += 1 + name
	}
	if at == len(tail) {
		p.self[p.node] = amount
		return
	}
	name := tail[at+1:]
	if i := bytes.IndexByte(name, ';'); i >= 0 {
		name = name[:i]
	}
	path := p.path(p.deep).then(maphash.Bytes(p.seed, name))
	p.insert(path, textNode{
		parent: p.node, block: n.block, from: n.from + uint32(at) + 1,
		name: uint32(len(name)), tail: uint32(len(tail) - at - 1 - len(name)),
	}, amount)
}

// textNodeBytes is how many bytes a node takes, with its amount, its slots in the hash table and
// its place in the tree.
const textNodeBytes = 2*(int(unsafe.Sizeof(textNode{}))+8+2*16) + 16

// insert adds a node and returns its index.
func (p *textTree) insert(path stack, n textNode, amount float64) int32 {
	p.meter.add(textNodeBytes)
	id := int32(len(p.nodes))
	p.nodes, p.self = append(p.nodes, n), append(p.self, amount)
	if len(p.nodes) > len(p.slots)/8*5 {
		old := p.slots
		p.slots = make([]stackSlot, 2*len(old))
		for _, s := range old {
			if s.node != 0 {
				p.put(s)
			}
		}
	}
	p.put(stackSlot{path.a, uint32(path.b >> 32), id})
	return id
}

func (p *textTree) put(s stackSlot) {
	mask := uint64(len(p.slots) - 1)
	i := s.a & mask
	for p.slots[i].node != 0 {
		i = (i + 1) & mask
	}
	p.slots[i] = s
}

// tree returns the tree without nodes that have less than the given share of the whole. The
// textTree must not be used afterwards.
func (p *textTree) tree(least float64) *Tree {
	p.slots = nil
	total := make([]float64, len(p.nodes))
	copy(total, p.self)
	for i := len(total) - 1; i > 0; i-- {
		total[p.nodes[i].parent] += total[i]
	}
	least *= total[0]
	count := 1
	for i := 1; i < len(total); i++ {
		if total[i] >= least {
			count += 1 + bytes.Count(p.tail(int32(i)), []byte{';'})
		}
	}
	p.meter.add(24 * count)
	b := &Builder{meter: p.meter, seed: p.seed,
		tree:  &Tree{Functions: []Function{{Name: "all"}}, Unit: "samples"},
		names: make([]slot, 1<<10), often: make([]recentFunction, recentSize)}
	t := b.tree
	t.Function, t.Parent, t.Self, t.Total = make([]uint32, 1, count), make([]int32, 1,
		count), make([]float64, 1, count), make([]float64, 1, count)
	t.Parent[0], t.Self[0], t.Total[0] = -1, p.self[0], total[0]
	place, depth := make([]int32, len(total)), make([]int32, len(total))
	for i := 1; i < len(total); i++ {
		if total[i] < least {
			continue
		}
		n := &p.nodes[i]
		at, d := place[n.parent], depth[n.parent]
		name, rest, more := p.text(int32(i))[:n.name], p.tail(int32(i)), true
		for more {
			t.Function, t.Parent = append(t.Function, b.Named(name)), append(t.Parent, at)
			t.Self, t.Total = append(t.Self, 0), append(t.Total, total[i])
			at = int32(len(t.Parent) - 1)
			d++
			if more = len(rest) > 0; more {
				end := bytes.IndexByte(rest[1:], ';')
				if end < 0 {
					end = len(rest) - 1
				}
				name, rest = rest[1:1+end], rest[1+end:]
			}
		}
		t.Self[at] = p.self[i]
		place[i], depth[i] = at, d // not used for a node with a tail
		t.Depth = max(t.Depth, int(d))
	}
	if p.cut > 0 {
		t.note(
			plural(p.cut, "stack is", "stacks are") + " deeper than 65,536 frames, and cut there",
		)
	}
	return t
}
