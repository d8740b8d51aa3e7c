package profile

// A walker visits a tree in depth-first order, callees sorted by name: the order of a picture.
type walker struct {
	t     *Tree
	order []int32 // nil: the tree's own
	path  []walked
}

// A walked is a node on the current path.
type walked struct {
	node int32
	next float64 // where its next callee begins
}

func (t *Tree) walker() *walker {
	w := &walker{t: t}
	if !t.inWalkOrder() {
		w.order = t.walkOrder()
	}
	return w
}

// inWalkOrder reports whether the nodes are stored in depth-first order, callees sorted by name.
func (t *Tree) inWalkOrder() bool {
	var path []int32
	for i := range t.Parent {
		last := int32(-1) // the callee before, of the same caller
		for len(path) > 0 && path[len(path)-1] != t.Parent[i] {
			last = path[len(path)-1]
			path = path[:len(path)-1]
		}
		if len(path) == 0 && i > 0 ||
			last >= 0 && compareFunctions(t.Functions, t.Function[last], t.Function[i]) > 0 {
			return false
		}
		path = append(path, int32(i))
	}
	return true
}

// walkOrder returns the nodes in depth-first order, callees sorted by name.
func (t *Tree) walkOrder() []int32 {
	from, list := t.children()
	order := make([]int32, 0, t.Len())
	todo := []int32{0}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		order = append(order, n)
		for i := from[n+1] - 1; i >= from[n]; i-- {
			todo = append(todo, list[i])
		}
	}
	return order
}

// at returns the nth node of the walk, its depth, and where in the whole it begins. Call it for n =
// 0, 1, 2, ...
func (w *walker) at(n int) (node int32, depth int, left float64) {
	node = int32(n)
	if w.order != nil {
		node = w.order[n]
	}
	for len(w.path) > 0 && w.path[len(w.path)-1].node != w.t.Parent[node] {
		w.path = w.path[:len(w.path)-1]
	}
	if len(w.path) > 0 {
		above := &w.path[len(w.path)-1]
		left = above.next
		above.next += w.t.Total[node]
	}
	w.path = append(w.path, walked{node, left})
	return node, len(w.path) - 1, left
}

// depths returns the depth of each node; the root has 0.
func (t *Tree) depths() []int32 {
	d := make([]int32, t.Len())
	for i := 1; i < len(d); i++ {
		d[i] = d[t.Parent[i]] + 1
	}
	return d
}
