package profile

// A walker goes through a tree as a picture is drawn: each node before those that it calls, and those in the order of names.
type walker struct {
	t     *Tree
	order []int32 // nil: the tree's own
	path  []walked
}

// A walked is a node on the way from the root.
type walked struct {
	node int32
	next float64 // where the next that it calls begins
}

func (t *Tree) walker() *walker {
	w := &walker{t: t}
	if !t.walks() {
		w.order = t.walkOrder()
	}
	return w
}

// walks says whether the nodes are in the order of a walk.
func (t *Tree) walks() bool {
	var path []int32
	for i := range t.Parent {
		last := int32(-1) // that the same one calls
		for len(path) > 0 && path[len(path)-1] != t.Parent[i] {
			last = path[len(path)-1]
			path = path[:len(path)-1]
		}
		if len(path) == 0 && i > 0 || last >= 0 && compareFunctions(t.Functions, t.Function[last], t.Function[i]) > 0 {
			return false
		}
		path = append(path, int32(i))
	}
	return true
}

// walkOrder gives the nodes in the order of a walk.
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

// at gives the nth node of the walk, which is asked for one after the other, how far it is from the root, and where in the whole it begins.
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

// depths gives how far each node is from the root.
func (t *Tree) depths() []int32 {
	d := make([]int32, t.Len())
	for i := 1; i < len(d); i++ {
		d[i] = d[t.Parent[i]] + 1
	}
	return d
}
