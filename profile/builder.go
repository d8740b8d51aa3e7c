package profile

import (
	"hash/maphash"
	"math"
	"unsafe"
)

// MaxDepth is the number of frames of a stack that are read. Inner frames of deeper stacks are cut
// off, with a note.
const MaxDepth = 1 << 16

// A Builder builds a Tree stack by stack, for one goroutine. Use NewBuilder.
type Builder struct {
	seed  maphash.Seed
	tree  *Tree
	names []slot           // hash table of functions; open addressing, power of two
	often []recentFunction // small cache before names that fits the CPU's caches
	edges []edge           // hash table of nodes; open addressing, power of two
	cut   int

	lines lineSet

	meter   *meter            // nil: nothing is bounded
	modules map[string]string // interned
	piece   []byte            // memory of names; written bytes never change
}

type slot struct {
	hash uint32
	id   uint32 // 0, the root, means free
}

// A recentFunction is an entry of the cache of functions. id 0: free.
type recentFunction struct {
	hash uint64
	id   uint32
}

// recentSize is the number of entries of the cache.
const recentSize = 1 << 12

type edge struct {
	parent, node int32 // node 0: free
	function     uint32
}

// NewBuilder returns a Builder of an empty tree.
func NewBuilder() *Builder {
	t := &Tree{Functions: []Function{{Name: "all"}}, Function: []uint32{0}, Parent: []int32{-1},
		Self: []float64{0}, Unit: "samples"}
	return &Builder{seed: maphash.MakeSeed(), tree: t, names: make([]slot, 1<<10),
		often: make([]recentFunction, recentSize), edges: make([]edge, 1<<10)}
}

// builder returns a Builder that is bounded by the meter of the options.
func (o *Options) builder() *Builder {
	b := NewBuilder()
	b.meter, b.lines.meter = o.meter, o.meter
	return b
}

// Function returns the index of a function and adds it when it is new. It copies the bytes.
func (b *Builder) Function(name, module []byte, kind Kind) uint32 {
	h := maphash.Bytes(b.seed, name)
	if len(module) > 0 {
		h ^= maphash.Bytes(b.seed, module) * 0x9e3779b97f4a7c15
	}
	h ^= uint64(kind) * 0x9e3779b97f4a7c15
	near := &b.often[h%recentSize]
	if near.hash == h && near.id != 0 {
		if f := &b.tree.Functions[near.id]; f.Name == string(name) && f.Module == string(module) &&
			f.Kind == kind {
			return near.id
		}
	}
	id := b.function(uint32(h>>32), name, module, kind)
	*near = recentFunction{h, id}
	return id
}

// function looks a function up in the hash table and adds it when it is new.
func (b *Builder) function(hash uint32, name, module []byte, kind Kind) uint32 {
	mask := uint32(len(b.names) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &b.names[i]
		if s.id == 0 {
			b.meter.add(builtFunctionBytes + len(name))
			id := uint32(len(b.tree.Functions))
			*s = slot{hash, id}
			if n := len(b.tree.Functions); n == cap(
				b.tree.Functions,
			) { // append would leave more garbage
				b.tree.Functions = append(make([]Function, 0, max(2*n, 64)), b.tree.Functions...)
			}
			b.tree.Functions = append(b.tree.Functions,
				Function{Name: b.text(name), Module: b.module(module), Kind: kind})
			if len(b.tree.Functions)*2 > len(b.names) {
				b.growNames()
			}
			return id
		}
		if s.hash == hash {
			if f := &b.tree.Functions[s.id]; f.Name == string(name) && f.Module == string(module) &&
				f.Kind == kind {
				return s.id
			}
		}
	}
}

// text copies a name. Many names share one piece of memory, which stays while one of them is used.
func (b *Builder) text(name []byte) string {
	if len(name) > cap(b.piece)-len(b.piece) {
		if len(name) > maxPiece/4 {
			return string(name)
		}
		b.piece = make([]byte, 0, max(len(name), min(max(firstPiece, 2*cap(b.piece)), maxPiece)))
	}
	from := len(b.piece)
	b.piece = append(b.piece, name...)
	return unsafe.String(unsafe.SliceData(b.piece[from:]), len(name)) // never written again
}

// The bytes of a piece of memory for names, at first and at most.
const (
	firstPiece = 1 << 9
	maxPiece   = 1 << 14
)

// module returns the interned name of a module.
func (b *Builder) module(name []byte) string {
	if len(name) == 0 {
		return ""
	}
	if s, ok := b.modules[string(name)]; ok {
		return s
	}
	if b.modules == nil {
		b.modules = map[string]string{}
	}
	s := string(name)
	b.modules[s] = s
	return s
}

// Named returns the index of a function of which only the name is known.
func (b *Builder) Named(name []byte) uint32 { return b.Function(name, nil, kindByName(name)) }

// kindByName returns the kind by the suffixes _[k], _[j] and _[i] that stack collapsers write.
func kindByName(name []byte) Kind {
	if n := len(name); n > 4 && name[n-1] == ']' && name[n-3] == '[' && name[n-4] == '_' {
		switch name[n-2] {
		case 'k':
			return Kernel
		case 'j':
			return JIT
		case 'i':
			return Inlined
		}
	}
	return Code
}

func (b *Builder) growNames() {
	old := b.names
	b.names = make([]slot, 2*len(old))
	mask := uint32(len(b.names) - 1)
	for _, s := range old {
		if s.id == 0 {
			continue
		}
		i := s.hash & mask
		for b.names[i].id != 0 {
			i = (i + 1) & mask
		}
		b.names[i] = s
	}
}

// A Call is a node during construction. The zero value is the root.
type Call struct {
	Node int32
	hash uint32 // of the functions from the root to it
}

// stackHash returns the hash of a stack that is extended by a function.
func stackHash(hash uint32, function uint32) uint32 {
	h := (uint64(hash)<<32 | uint64(function)) * 0x9e3779b97f4a7c15
	return uint32(h>>32) ^ uint32(h)>>7
}

// Child returns the node of a function called by parent, and adds it when it is new. The hash
// depends on functions alone, not on nodes, so that the CPU can prefetch all nodes of a stack.
func (b *Builder) Child(parent Call, function uint32) Call {
	mask := uint32(len(b.edges) - 1)
	hash := stackHash(parent.hash, function)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := &b.edges[i]
		if e.parent == parent.Node && e.function == function && e.node != 0 {
			return Call{e.node, hash}
		}
		if e.node == 0 {
			b.meter.add(builtNodeBytes)
			t := b.tree
			node := int32(len(t.Parent))
			*e = edge{parent.Node, node, function}
			t.Parent, t.Function, t.Self = append(t.Parent, parent.Node), append(t.Function,
				function), append(t.Self, 0)
			if len(t.Parent) > len(b.edges)/8*5 {
				b.growEdges()
			}
			return Call{node, hash}
		}
	}
}

func (b *Builder) growEdges() {
	n := 2 * len(b.edges)
	b.edges = nil // the old table can be freed first
	b.edges = make([]edge, n)
	mask := uint32(n - 1)
	hashes := make([]uint32, len(b.tree.Parent))
	for node := 1; node < len(hashes); node++ {
		parent, function := b.tree.Parent[node], b.tree.Function[node]
		hashes[node] = stackHash(hashes[parent], function)
		i := hashes[node] & mask
		for b.edges[i].node != 0 {
			i = (i + 1) & mask
		}
		b.edges[i] = edge{parent, int32(node), function}
	}
}

// Add adds an amount to a node. It ignores NaN, infinity and amounts below 0.
func (b *Builder) Add(node int32, amount float64) {
	if amount > 0 && !math.IsInf(amount, 1) {
		b.tree.Self[node] += amount
	}
}

// Stack adds an amount to a stack of functions, outermost first. It returns the node of the
// innermost one.
func (b *Builder) Stack(functions []uint32, amount float64) int32 {
	if len(functions) > MaxDepth {
		functions = functions[:MaxDepth]
		b.cut++
	}
	b.meter.visit(len(functions))
	at := Call{}
	for _, f := range functions {
		at = b.Child(at, f)
	}
	b.Add(at.Node, amount)
	return at.Node
}

// Lined adds an amount to a stack whose frames have source lines; 0: unknown.
func (b *Builder) Lined(functions []uint32, lines []int32, amount float64) int32 {
	b.lines.add(functions, lines, amount)
	return b.Stack(functions, amount)
}

// Tree returns the tree. The builder must not be used afterwards.
func (b *Builder) Tree() *Tree {
	t := b.tree
	b.edges, b.names, b.tree = nil, nil, nil
	if b.cut > 0 {
		t.note(
			plural(b.cut, "stack is", "stacks are") + " deeper than 65,536 frames, and cut there",
		)
	}
	t.Lines = b.lines.list()
	t.sum()
	return t
}
