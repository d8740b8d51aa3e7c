package profile

// An overview contains what a first picture of a large profile needs: the calls that are wide
// enough to be visible. Adjacent calls that are too narrow, with all their callees, are merged into
// one node of no function.
const (
	minOverviewNodes = 50_000  // a profile with fewer nodes needs no overview
	overviewPixels   = 1 << 14 // assumed width: calls of half a pixel are in the overview
	maxOverviewNodes = 40_000
)

// AppendOverview appends the overview of a profile in columns. It reports false for small profiles,
// which have none. The error is that of AppendColumns.
func AppendOverview(b []byte, t *Tree) ([]byte, bool, error) {
	if t.Len() <= minOverviewNodes {
		return b, false, nil
	}
	u, _ := t.overview(t.overviewThreshold())
	b, err := appendColumns(b, u, nil, t.Len())
	return b, true, err
}

// overviewThreshold returns the lowest total of a call in the overview.
func (t *Tree) overviewThreshold() float64 {
	for least := t.Sum() / (2 * overviewPixels); ; least *= 2 { // fewer nodes each time
		wide := 0
		for _, total := range t.Total {
			if total >= least && total > 0 {
				wide++
			}
		}
		if wide <= maxOverviewNodes {
			return least
		}
	}
}

// overview returns the nodes with a total of least or more, sorted by name. Each run of adjacent
// other nodes is one node of function 0. The second result lists the nodes of t that each node
// represents.
func (t *Tree) overview(least float64) (*Tree, [][]int32) {
	rank := t.ranks()
	from, list := t.callees()
	u := &Tree{Functions: t.Functions, Unit: t.Unit, Samples: t.Samples, Seconds: t.Seconds,
		Taken: t.Taken, Notes: t.Notes, Depth: t.Depth}
	var of [][]int32
	type step struct {
		nodes  []int32
		parent int32
		run    bool
	}
	todo := []step{{[]int32{0}, -1, false}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n := int32(len(u.Parent))
		function, self, total := uint32(0), 0.0, 0.0
		for _, c := range s.nodes {
			total += t.Total[c]
		}
		if self = total; !s.run {
			function, self = t.Function[s.nodes[0]], t.Self[s.nodes[0]]
		}
		u.Parent, u.Function = append(u.Parent, s.parent), append(u.Function, function)
		u.Self, u.Total, of = append(u.Self, self), append(u.Total, total), append(of, s.nodes)
		if s.run {
			continue
		}
		calls := list[from[s.nodes[0]]:from[s.nodes[0]+1]]
		t.byRank(calls, rank) // sorts the callees of remaining nodes only
		wide := func(c int32) bool { return t.Total[c] >= least && t.Total[c] > 0 }
		for end := len(calls); end > 0; {
			begin, run := end-1, !wide(calls[end-1])
			for run && begin > 0 && !wide(calls[begin-1]) {
				begin--
			}
			todo = append(todo, step{calls[begin:end], n, run})
			end = begin
		}
	}
	return u, of
}
