package profile

import (
	"cmp"
	"math"
	"slices"

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

	Lines []LineRow // by function and line; nil: the frames have no lines
	Times *Timeline // nil: the profile does not say when its stacks ran
}

// Taken is when and how a profile was taken. 0 means unknown.
type Taken struct {
	At   measure.Time // the start
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
	u.Lines = regroupLines(t.Lines, to)
	u.Times = t.Times.moved(func(node int32) int32 { return at[node].Node })
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
		Taken: t.Taken, Notes: t.Notes, Lines: t.Lines}
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
	u.Times = t.Times.moved(func(node int32) int32 {
		for at[node] < 0 {
			node = t.Parent[node]
		}
		return at[node]
	})
	return u, kept
}
