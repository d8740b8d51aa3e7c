package profile

// A sketch is what a first picture of a large profile needs: the calls that are wide enough to be seen. Calls beside each other that are
// too narrow, with all that they call, are one node in their place, of no function.
const (
	worthSketching = 50_000  // calls: a smaller profile is there as soon as its sketch
	sketchPixels   = 1 << 14 // of the width that it is for: what has half a pixel of it is in the sketch
	mostSketched   = 40_000  // calls
)

// AppendSketch appends a sketch of a profile in columns, and says whether it has one: small profiles have none.
func AppendSketch(b []byte, t *Tree) ([]byte, bool, error) {
	if t.Len() <= worthSketching {
		return b, false, nil
	}
	u, _ := t.sketched(t.leastSketched())
	b, err := appendColumns(b, u, nil, t.Len())
	return b, true, err
}

// leastSketched gives how much a call of a sketch has at least.
func (t *Tree) leastSketched() float64 {
	for least := t.Sum() / (2 * sketchPixels); ; least *= 2 { // those that are kept are fewer each time
		wide := 0
		for _, total := range t.Total {
			if total >= least && total > 0 {
				wide++
			}
		}
		if wide <= mostSketched {
			return least
		}
	}
}

// sketched gives the calls that have at least so much, in the order of a walk, each run of others beside each other as one of function 0;
// and which nodes of the tree each stands for: one, or those of the run.
func (t *Tree) sketched(least float64) (*Tree, [][]int32) {
	rank := t.ranks()
	from, list := t.families()
	u := &Tree{Functions: t.Functions, Unit: t.Unit, Samples: t.Samples, Seconds: t.Seconds, Taken: t.Taken, Notes: t.Notes, Depth: t.Depth}
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
		t.byRank(calls, rank) // few are kept: not of all
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
