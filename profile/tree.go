package profile

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"unsafe"

	"culprit/measure"
)

// A Kind says to which kind of code a function belongs.
type Kind uint8

// The kinds of functions. Formats that don't record the kind have Code.
const (
	Code    Kind = iota // of a program or library, or unknown
	Kernel              // of the kernel or one of its modules
	JIT                 // compiled while the program ran
	Inlined             // inlined by the compiler
	Process             // not a function: the process or thread of the stacks
)

// A Function is the function of a node. Functions with equal name, module and kind are the same.
type Function struct {
	Name   string // may be any bytes
	Module string // base name of the file, or the kernel's module; "": unknown
	Kind   Kind
	File   string // source file of the first frame seen; "": unknown
	Line   int    // of the function, or of the first frame seen; 0: unknown
}

// A Tree is a profile. A node is a function called through one chain of callers. Its columns have
// one element per node, callers before callees. Node 0 is the root, which is no function. Total is
// Self plus the totals of all callees.
type Tree struct {
	Functions []Function // Functions[0] is the root's
	Function  []uint32   // of each node: index into Functions
	Parent    []int32    // of each node; of the root -1
	Self      []float64  // amount of the node itself, at least 0
	Total     []float64
	Depth     int // of the deepest node; the root has 0

	Unit    string  // of the amounts: samples, ns, bytes, cycles ...
	Samples float64 // number of samples; 0: unknown, estimated from the amounts
	Seconds float64 // CPU time that the amounts represent; 0: unknown
	Taken   Taken
	Notes   []string
}

// Taken is when and how a profile was taken. 0 means unknown.
type Taken struct {
	At   measure.Time // the begin
	Over measure.Span // the length
	Each measure.Span // between two samples of a CPU; 0 also when amounts are not samples
}

// Len returns the number of nodes, including the root.
func (t *Tree) Len() int { return len(t.Parent) }

// Name returns the name of a node's function.
func (t *Tree) Name(node int) string { return t.Functions[t.Function[node]].Name }

// Sum returns the amount of the whole profile.
func (t *Tree) Sum() float64 { return t.Total[0] }

// note adds a note unless the tree has it.
func (t *Tree) note(text string) {
	if !slices.Contains(t.Notes, text) {
		t.Notes = append(t.Notes, text)
	}
}

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

// Stack adds an amount to a stack of functions, outermost first.
func (b *Builder) Stack(functions []uint32, amount float64) {
	if len(functions) > MaxDepth {
		functions = functions[:MaxDepth]
		b.cut++
	}
	at := Call{}
	for _, f := range functions {
		at = b.Child(at, f)
	}
	b.Add(at.Node, amount)
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
	t.sum()
	return t
}

// sum computes Total and Depth.
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

// Regroup returns a tree in which each function f is replaced by to[f]. Nodes that become the same
// call are merged. Functions that become 0 are removed; their callees become callees of their
// callers.
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

// ByName returns the tree with all functions of one name merged, or t itself when names are unique.
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

// children returns the callees of each node, sorted by name: those of n are
// list[from[n]:from[n+1]].
func (t *Tree) children() (from []int32, list []int32) {
	rank := t.ranks()
	from, list = t.callees()
	for i := range t.Len() {
		t.byRank(list[from[i]:from[i+1]], rank)
	}
	return from, list
}

// byRank sorts nodes by the rank of their functions.
func (t *Tree) byRank(nodes []int32, rank []uint32) {
	if len(nodes) > 1 {
		slices.SortFunc(nodes,
			func(a, b int32) int { return cmp.Compare(rank[t.Function[a]], rank[t.Function[b]]) })
	}
}

// callees returns the callees of each node in the order of the tree, as children does.
func (t *Tree) callees() (from []int32, list []int32) {
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

// ranks returns each function's position in the order of names.
func (t *Tree) ranks() []uint32 {
	rank := make([]uint32, len(t.Functions))
	var order []uint32
	for _, f := range t.Function { // a pruned tree doesn't use most functions
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

// Prune returns the tree without the nodes whose total is below least. Other amounts don't change.
func (t *Tree) Prune(least float64) *Tree {
	u, _ := t.prune(least, math.MaxInt)
	return u
}

// heaviest returns the tree with at most the given number of nodes, those with the highest totals,
// and the index of each in t.
func (t *Tree) heaviest(nodes int) (*Tree, []int32) {
	if t.Len() <= nodes {
		return t.prune(0, math.MaxInt)
	}
	totals := slices.Sorted(slices.Values(t.Total))
	least := totals[len(totals)-nodes]
	more, _ := slices.BinarySearch(totals, math.Nextafter(least, math.Inf(1)))
	return t.prune(least, nodes-(len(totals)-more))
}

// prune returns the tree without the nodes whose total is below least, and the index of each
// remaining node in t. Of the nodes with a total of exactly least the first ties remain.
func (t *Tree) prune(least float64, ties int) (*Tree, []int32) {
	u := &Tree{Functions: t.Functions, Unit: t.Unit, Samples: t.Samples, Seconds: t.Seconds,
		Taken: t.Taken, Notes: t.Notes}
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
		u.Self, u.Total, depth = append(u.Self, t.Self[i]), append(u.Total,
			t.Total[i]), append(depth, d)
		u.Depth = max(u.Depth, d)
	}
	return u, kept
}
