package profile

import (
	"bytes"
	"hash/maphash"
	"math"
	"math/bits"
)

// A pile makes a Tree of stacks that come as text, outermost;...;innermost. The zero value is not ready: see newPile.
//
// Calls that several stacks share are nodes. Where a stack leaves all others the rest of it is one node too, with a tail: it is kept as
// the text it is, and not looked at until a stack comes that shares a part of it. Of a million stacks most calls are in tails.
//
// Nodes are found by a hash of their stack's text, of 96 bits, which is taken for the text. All beginnings of a node's stack are nodes too, so
// that the innermost known one is found by a few looks, without a look at each function on the way. What a stack has in common
// with the one before it is not looked up at all.
type pile struct {
	seed   maphash.Seed
	nodes  []piled
	self   []float64 // of the node, or the end of its tail
	blocks [][]byte  // of text
	slots  []stackSlot
	cut    int // stacks that were too deep

	last  []byte  // the stack before
	ends  []int   // of each frame in last, before its semicolon, as far as it was read
	paths []stack // of each frame in last, as far as it was asked for
	deep  int     // how many frames of last lead to node
	node  int32   // the innermost of last; its tail is what last has besides
}

// A piled is a node of a pile. It stands behind the one that calls it; node 0 is the root. Its text is the function's name, and behind it
// the tail: for each further function a semicolon and the name.
type piled struct {
	parent      int32
	block, from uint32
	name, tail  uint32 // bytes; a node that others call has no tail
}

// textBlock is how many bytes of text are kept in one piece, unless one stack has more.
const textBlock = 256 << 10

// A stack is the hash of a stack's text. The zero value is the empty one.
type stack struct{ a, b uint64 }

// A stackSlot is where a node is found: open addressing by a.
type stackSlot struct {
	a    uint64
	b    uint32
	node int32 // 0: free
}

// then gives the hash of a stack that goes on with a name of this hash.
func (s stack) then(name uint64) stack {
	high, low := bits.Mul64(s.a^name, 0x9e3779b97f4a7c15)
	return stack{high ^ low, (bits.RotateLeft64(s.b, 23) ^ name) * 0xd6e8feb86659fd93}
}

func newPile() *pile {
	return &pile{seed: maphash.MakeSeed(), nodes: make([]piled, 1), self: make([]float64, 1), slots: make([]stackSlot, 1<<10)}
}

// add adds an amount to a stack; what is not a number from 0 on is nothing. The bytes are the caller's again afterwards.
func (p *pile) add(text []byte, amount float64) {
	if !(amount > 0) || math.IsInf(amount, 1) {
		amount = 0
	}
	if len(text) >= MostDepth && bytes.Count(text, []byte{';'}) >= MostDepth {
		text = text[:endOfFrame(text, MostDepth)]
		p.cut++
	}
	common := commonPrefix(text, p.last)
	same := len(p.ends) // frames that end within the common prefix, or with it at a semicolon
	for same > 0 {
		end := p.ends[same-1]
		if end < common && end < len(text) || end == common && (end == len(text) || text[end] == ';') {
			break
		}
		same--
	}
	p.ends, p.paths = p.ends[:same], p.paths[:min(same, len(p.paths))]
	p.last = append(p.last[:common], text[common:]...)
	if same < p.deep || p.nodes[p.node].tail == 0 { // or else it has no callees
		p.find(min(same, p.deep))
	}
	p.grow(amount)
}

// endOfFrame gives where the frame of this number, from 1 on, ends.
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

// frame says whether the stack has so many frames, and reads them.
func (p *pile) frame(n int) bool {
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

// name gives the text of a frame, from 1 on, that was read.
func (p *pile) name(n int) []byte {
	if n == 1 {
		return p.last[:p.ends[0]]
	}
	return p.last[p.ends[n-2]+1 : p.ends[n-1]]
}

// path gives the hash of the first n frames, which were read.
func (p *pile) path(n int) stack {
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

// at gives the node of the first n frames; it is none if there are fewer or no stack was there before that has them.
func (p *pile) at(n int) (int32, bool) {
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

// find sets node to the innermost that the stack has, and deep to how many frames lead to it. The first known ones lead to one, that is sure. It looks first where the stack before had it, and from there in steps that double.
func (p *pile) find(known int) {
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

// grow adds an amount to the stack, whose innermost node is known.
func (p *pile) grow(amount float64) {
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
	from := len(p.blocks[k])
	p.blocks[k] = append(p.blocks[k], rest...)
	p.deep++
	p.frame(p.deep)
	name := len(p.name(p.deep))
	p.node = p.insert(p.path(p.deep), piled{parent: p.node, block: uint32(k), from: uint32(from), name: uint32(name), tail: uint32(len(rest) - name)}, amount)
}

// text gives the name of a node's function and its tail.
func (p *pile) text(node int32) []byte {
	n := &p.nodes[node]
	return p.blocks[n.block][n.from : n.from+n.name+n.tail]
}

func (p *pile) tail(node int32) []byte {
	if p.nodes[node].tail == 0 {
		return nil
	}
	return p.text(node)[p.nodes[node].name:]
}

// split makes nodes of the first bytes of the node's tail, which are the stack's, and of the next function, which has the rest.
func (p *pile) split(common int) {
	tail, amount, n := p.tail(p.node), p.self[p.node], p.nodes[p.node]
	p.self[p.node], p.nodes[p.node].tail = 0, 0
	at := 0
	n.from += n.name
	for at < common {
		p.deep++
		p.frame(p.deep)
		name := len(p.name(p.deep))
		p.node = p.insert(p.path(p.deep), piled{parent: p.node, block: n.block, from: n.from + uint32(at) + 1, name: uint32(name)}, 0)
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
	p.insert(path, piled{parent: p.node, block: n.block, from: n.from + uint32(at) + 1, name: uint32(len(name)), tail: uint32(len(tail) - at - 1 - len(name))}, amount)
}

// insert makes a node.
func (p *pile) insert(path stack, n piled, amount float64) int32 {
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

func (p *pile) put(s stackSlot) {
	mask := uint64(len(p.slots) - 1)
	i := s.a & mask
	for p.slots[i].node != 0 {
		i = (i + 1) & mask
	}
	p.slots[i] = s
}

// tree gives what was gathered, without nodes that have less than a share of the whole. The pile is of no use afterwards.
func (p *pile) tree(least float64) *Tree {
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
	b := &Builder{seed: p.seed, tree: &Tree{Functions: []Function{{Name: "all"}}, Unit: "samples"}, names: make([]slot, 1<<10), often: make([]hint, hints)}
	t := b.tree
	t.Function, t.Parent, t.Self, t.Total = make([]uint32, 1, count), make([]int32, 1, count), make([]float64, 1, count), make([]float64, 1, count)
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
			t.Function, t.Parent, t.Self, t.Total = append(t.Function, b.Named(name)), append(t.Parent, at), append(t.Self, 0), append(t.Total, total[i])
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
		place[i], depth[i] = at, d // of a node with a tail they are asked for by none
		t.Depth = max(t.Depth, int(d))
	}
	if p.cut > 0 {
		t.note(plural(p.cut, "stack is", "stacks are") + " deeper than 65,536 frames, and cut there")
	}
	return t
}
