package profile

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"unsafe"

	"culprit/measure"
)

// A Kind says where a function's code lives.
type Kind uint8

// The kinds of functions. What a format doesn't tell is Code.
const (
	Code    Kind = iota // of a program or library, or not known
	Kernel              // of the kernel or one of its modules
	JIT                 // made while the program ran
	Inlined             // put into its caller by the compiler
	Process             // no function: the process or thread whose stacks are above
)

// A Function is what a node calls by name. Two functions are one when name, module and kind are the same.
type Function struct {
	Name   string // may be any bytes
	Module string // base name of the file, or the kernel's module; "" not known
	Kind   Kind
	File   string // source file, as far as it is known of the first place seen
	Line   int    // where the function begins, or of the first place seen; 0 not known
}

// A Tree is a profile: a node is a function called through one chain of callers. Columns are aligned, callers stand before what
// they call, and node 0 is the root, which no function stands for. Total is Self and the totals of all that is called.
type Tree struct {
	Functions []Function // Functions[0] is the root's
	Function  []uint32   // of each node: index into Functions
	Parent    []int32    // of each node; of the root -1
	Self      []float64  // amount in the node itself, at least 0
	Total     []float64
	Depth     int // of the deepest node; the root has 0

	Unit    string  // of the amounts: samples, ns, bytes, cycles ...
	Samples float64 // how many samples were taken; 0: not known, and amounts are taken for it
	Seconds float64 // of CPU time that the amounts stand for; 0: not known
	Taken   Taken
	Notes   []string
}

// Taken says when and how a profile was taken, as far as it is known.
type Taken struct {
	At   measure.Time // when it began; 0: not known
	Over measure.Span // for how long; 0: not known
	Each measure.Span // CPU time between the samples of a CPU; 0: not known, or the amounts are not samples
}

// Len gives the number of nodes, the root among them.
func (t *Tree) Len() int { return len(t.Parent) }

// Name gives the function's name of a node.
func (t *Tree) Name(node int) string { return t.Functions[t.Function[node]].Name }

// Sum gives the amount of the whole profile.
func (t *Tree) Sum() float64 { return t.Total[0] }

// note adds a note once.
func (t *Tree) note(text string) {
	if !slices.Contains(t.Notes, text) {
		t.Notes = append(t.Notes, text)
	}
}

// MostDepth is how deep a stack may be: what is deeper is cut off at the leaf's side, with a note.
const MostDepth = 1 << 16

// A Builder makes a Tree, stack by stack. The zero value is not ready: see NewBuilder. It is used by one goroutine.
type Builder struct {
	seed  maphash.Seed
	tree  *Tree
	names []slot // of functions: open addressing by the hash of name, module and kind; a power of two
	often []hint // functions that were asked for lately: a part of names that stays near the processor
	edges []edge // of nodes: open addressing by caller and function; a power of two
	cut   int

	modules map[string]string // as texts
	piece   []byte            // of names; what is there stays as it is
}

type slot struct {
	hash uint32
	id   uint32 // and 0: free, which is the root's and never looked up
}

// A hint says where a function may be. ID 0: nowhere.
type hint struct {
	hash uint64
	id   uint32
}

// hints is how many functions are kept near.
const hints = 1 << 12

type edge struct {
	parent, node int32 // node 0: free
	function     uint32
}

// NewBuilder makes a Builder of an empty tree.
func NewBuilder() *Builder {
	t := &Tree{Functions: []Function{{Name: "all"}}, Function: []uint32{0}, Parent: []int32{-1}, Self: []float64{0}, Unit: "samples"}
	return &Builder{seed: maphash.MakeSeed(), tree: t, names: make([]slot, 1<<10), often: make([]hint, hints), edges: make([]edge, 1<<10)}
}

// Function gives the index of a function, made when it is new. The bytes are the caller's again afterwards.
func (b *Builder) Function(name, module []byte, kind Kind) uint32 {
	h := maphash.Bytes(b.seed, name)
	if len(module) > 0 {
		h ^= maphash.Bytes(b.seed, module) * 0x9e3779b97f4a7c15
	}
	h ^= uint64(kind) * 0x9e3779b97f4a7c15
	near := &b.often[h%hints]
	if near.hash == h && near.id != 0 {
		if f := &b.tree.Functions[near.id]; f.Name == string(name) && f.Module == string(module) && f.Kind == kind {
			return near.id
		}
	}
	id := b.function(uint32(h>>32), name, module, kind)
	*near = hint{h, id}
	return id
}

// function looks a function up among all.
func (b *Builder) function(hash uint32, name, module []byte, kind Kind) uint32 {
	mask := uint32(len(b.names) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &b.names[i]
		if s.id == 0 {
			id := uint32(len(b.tree.Functions))
			*s = slot{hash, id}
			if n := len(b.tree.Functions); n == cap(b.tree.Functions) { // twice the room: what append gives leaves five times as much behind
				b.tree.Functions = append(make([]Function, 0, max(2*n, 64)), b.tree.Functions...)
			}
			b.tree.Functions = append(b.tree.Functions, Function{Name: b.text(name), Module: b.module(module), Kind: kind})
			if len(b.tree.Functions)*2 > len(b.names) {
				b.growNames()
			}
			return id
		}
		if s.hash == hash {
			if f := &b.tree.Functions[s.id]; f.Name == string(name) && f.Module == string(module) && f.Kind == kind {
				return s.id
			}
		}
	}
}

// text keeps a name. Many stand in one piece of memory, which is there as long as one of them is asked for.
func (b *Builder) text(name []byte) string {
	if len(name) > cap(b.piece)-len(b.piece) {
		if len(name) > mostPiece/4 {
			return string(name)
		}
		b.piece = make([]byte, 0, max(len(name), min(max(firstPiece, 2*cap(b.piece)), mostPiece)))
	}
	from := len(b.piece)
	b.piece = append(b.piece, name...)
	return unsafe.String(unsafe.SliceData(b.piece[from:]), len(name)) // nobody writes there again
}

// How many bytes of names are kept in one piece, at first and at most.
const (
	firstPiece = 1 << 9
	mostPiece  = 1 << 14
)

// module gives the text of a module, which few functions have for themselves.
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

// Named gives the index of a function that is known by its name alone.
func (b *Builder) Named(name []byte) uint32 { return b.Function(name, nil, kindByName(name)) }

// kindByName reads the marks that stack collapsers put behind names.
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

// A Call is a node while a tree is built. The zero value is the root.
type Call struct {
	Node int32
	hash uint32 // of the functions down to it
}

// stirred gives the hash of a stack that goes on with a function.
func stirred(hash uint32, function uint32) uint32 {
	h := (uint64(hash)<<32 | uint64(function)) * 0x9e3779b97f4a7c15
	return uint32(h>>32) ^ uint32(h)>>7
}

// Child gives the call of a function from another call, made when it is new. Where it is looked for follows from the functions alone,
// not from the nodes above, so that a processor can fetch the calls of a whole stack from memory at a time.
func (b *Builder) Child(parent Call, function uint32) Call {
	mask := uint32(len(b.edges) - 1)
	hash := stirred(parent.hash, function)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := &b.edges[i]
		if e.parent == parent.Node && e.function == function && e.node != 0 {
			return Call{e.node, hash}
		}
		if e.node == 0 {
			t := b.tree
			node := int32(len(t.Parent))
			*e = edge{parent.Node, node, function}
			t.Parent, t.Function, t.Self = append(t.Parent, parent.Node), append(t.Function, function), append(t.Self, 0)
			if len(t.Parent) > len(b.edges)/8*5 {
				b.growEdges()
			}
			return Call{node, hash}
		}
	}
}

func (b *Builder) growEdges() {
	n := 2 * len(b.edges)
	b.edges = nil // not both at once
	b.edges = make([]edge, n)
	mask := uint32(n - 1)
	hashes := make([]uint32, len(b.tree.Parent))
	for node := 1; node < len(hashes); node++ {
		parent, function := b.tree.Parent[node], b.tree.Function[node]
		hashes[node] = stirred(hashes[parent], function)
		i := hashes[node] & mask
		for b.edges[i].node != 0 {
			i = (i + 1) & mask
		}
		b.edges[i] = edge{parent, int32(node), function}
	}
}

// Add adds an amount to a node itself. What is not a number from 0 on is nothing.
func (b *Builder) Add(node int32, amount float64) {
	if amount > 0 && !math.IsInf(amount, 1) {
		b.tree.Self[node] += amount
	}
}

// Stack adds an amount to the stack of functions, the outermost first.
func (b *Builder) Stack(functions []uint32, amount float64) {
	if len(functions) > MostDepth {
		functions = functions[:MostDepth]
		b.cut++
	}
	at := Call{}
	for _, f := range functions {
		at = b.Child(at, f)
	}
	b.Add(at.Node, amount)
}

// Tree gives what was built. The builder is of no use afterwards.
func (b *Builder) Tree() *Tree {
	t := b.tree
	b.edges, b.names, b.tree = nil, nil, nil
	if b.cut > 0 {
		t.note(plural(b.cut, "stack is", "stacks are") + " deeper than 65,536 frames, and cut there")
	}
	t.sum()
	return t
}

// sum works out Total and Depth.
func (t *Tree) sum() {
	t.Total = slices.Clone(t.Self)
	for i := len(t.Parent) - 1; i > 0; i-- {
		t.Total[t.Parent[i]] += t.Total[i]
	}
	depth := make([]int32, len(t.Parent))
	most := int32(0)
	for i := 1; i < len(depth); i++ {
		depth[i] = depth[t.Parent[i]] + 1
		most = max(most, depth[i])
	}
	t.Depth = int(most)
}

// Regroup makes a tree in which each function is the one that to gives for it: nodes that become the same call are one. Functions
// that become 0 are left out, and what they call hangs on their callers.
func (t *Tree) Regroup(functions []Function, to []uint32) *Tree {
	b := NewBuilder()
	b.tree.Functions = functions
	at := make([]Call, t.Len())
	for i := 1; i < t.Len(); i++ {
		at[i] = at[t.Parent[i]]
		if f := to[t.Function[i]]; f != 0 {
			at[i] = b.Child(at[i], f)
		}
		b.Add(at[i].Node, t.Self[i])
	}
	b.Add(0, t.Self[0])
	u := b.Tree()
	u.Unit, u.Samples, u.Seconds, u.Taken, u.Notes = t.Unit, t.Samples, t.Seconds, t.Taken, t.Notes
	return u
}

// ByName gives the tree in which functions of one name are one; the tree itself when that is so already.
func (t *Tree) ByName() *Tree {
	first := make(map[string]uint32, len(t.Functions))
	to := make([]uint32, len(t.Functions))
	same := true
	for i := 1; i < len(t.Functions); i++ {
		f, ok := first[t.Functions[i].Name]
		if !ok {
			f = uint32(i)
			first[t.Functions[i].Name] = f
		}
		to[i] = f
		same = same && !ok
	}
	if same {
		return t
	}
	return t.Regroup(t.Functions, to)
}

// children gives the nodes that each node calls, in the order of names: those of node n are list[from[n]:from[n+1]].
func (t *Tree) children() (from []int32, list []int32) {
	rank := t.ranks()
	from, list = t.families()
	for i := range t.Len() {
		t.byRank(list[from[i]:from[i+1]], rank)
	}
	return from, list
}

// byRank puts nodes in the order of their functions' ranks.
func (t *Tree) byRank(nodes []int32, rank []uint32) {
	if len(nodes) > 1 {
		slices.SortFunc(nodes, func(a, b int32) int { return cmp.Compare(rank[t.Function[a]], rank[t.Function[b]]) })
	}
}

// families gives the nodes that each node calls, in the order in which they came.
func (t *Tree) families() (from []int32, list []int32) {
	from = make([]int32, t.Len()+1)
	for _, p := range t.Parent[1:] {
		from[p+1]++
	}
	for i := range t.Len() {
		from[i+1] += from[i]
	}
	list = make([]int32, t.Len()-1)
	next := slices.Clone(from)
	for i := 1; i < t.Len(); i++ {
		p := t.Parent[i]
		list[next[p]] = int32(i)
		next[p]++
	}
	return from, list
}

// ranks gives each function's place in the order of names.
func (t *Tree) ranks() []uint32 {
	rank := make([]uint32, len(t.Functions))
	var order []uint32
	for _, f := range t.Function { // of a part of a tree, most functions are none of it
		if rank[f] == 0 {
			rank[f] = 1
			order = append(order, f)
		}
	}
	slices.SortFunc(order, func(a, b uint32) int { return compareFunctions(t.Functions, a, b) })
	for i, f := range order {
		rank[f] = uint32(i)
	}
	return rank
}

// Prune gives the tree without the nodes whose total is below least; what they are is told by their callers' totals alone. The
// amounts of all others stay.
func (t *Tree) Prune(least float64) *Tree {
	u, _ := t.prune(least, math.MaxInt)
	return u
}

// heaviest gives the tree without those nodes that have the least, so that at most so many are left, and of each which one it was.
func (t *Tree) heaviest(nodes int) (*Tree, []int32) {
	if t.Len() <= nodes {
		return t.prune(0, math.MaxInt)
	}
	totals := slices.Sorted(slices.Values(t.Total))
	least := totals[len(totals)-nodes]
	more, _ := slices.BinarySearch(totals, math.Nextafter(least, math.Inf(1)))
	return t.prune(least, nodes-(len(totals)-more))
}

// prune tells of each node that was kept which one it was. Of those whose total is least only the first so many are kept.
func (t *Tree) prune(least float64, ties int) (*Tree, []int32) {
	u := &Tree{Functions: t.Functions, Unit: t.Unit, Samples: t.Samples, Seconds: t.Seconds, Taken: t.Taken, Notes: t.Notes}
	var kept []int32
	at := make([]int32, t.Len())
	depth := []int{}
	for i := range t.Len() {
		if i > 0 && (t.Total[i] < least || at[t.Parent[i]] < 0) {
			at[i] = -1
			continue
		}
		if t.Total[i] == least {
			if ties == 0 {
				at[i] = -1
				continue
			}
			ties--
		}
		parent, d := int32(-1), 0
		if i > 0 {
			parent = at[t.Parent[i]]
			d = depth[parent] + 1
		}
		at[i] = int32(len(u.Parent))
		kept = append(kept, int32(i))
		u.Parent, u.Function = append(u.Parent, parent), append(u.Function, t.Function[i])
		u.Self, u.Total, depth = append(u.Self, t.Self[i]), append(u.Total, t.Total[i]), append(depth, d)
		u.Depth = max(u.Depth, d)
	}
	return u, kept
}
