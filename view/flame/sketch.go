package flame

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
	// The calls that are kept are fewer each time.
	least := t.Sum() / (2 * sketchPixels)
	for ; ; least *= 2 {
		wide := 0
		for _, total := range t.Total {
			if total >= least && total > 0 {
				wide++
			}
		}
		if wide <= mostSketched {
			break
		}
	}
	b, err := appendColumns(b, t.sketched(least), nil, t.Len())
	return b, true, err
}

// sketched gives the calls that have at least so much, in the order of a walk, each run of others beside each other as one of function 0.
func (t *Tree) sketched(least float64) *Tree {
	rank := t.ranks()
	from, list := t.families()
	u := &Tree{Functions: t.Functions, Unit: t.Unit, Samples: t.Samples, Seconds: t.Seconds, Notes: t.Notes, Depth: t.Depth}
	add := func(parent int32, function uint32, self, total float64) int32 {
		u.Parent, u.Function = append(u.Parent, parent), append(u.Function, function)
		u.Self, u.Total = append(u.Self, self), append(u.Total, total)
		return int32(len(u.Parent) - 1)
	}
	type step struct {
		node, parent int32 // below 0: a run of others
		amount       float64
	}
	todo := []step{{0, -1, 0}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s.node < 0 {
			add(s.parent, 0, s.amount, s.amount)
			continue
		}
		n := add(s.parent, t.Function[s.node], t.Self[s.node], t.Total[s.node])
		t.byRank(list[from[s.node]:from[s.node+1]], rank) // few are kept: not of all
		run := 0.0
		end := func() {
			if run > 0 {
				todo = append(todo, step{-1, n, run})
				run = 0
			}
		}
		for i := from[s.node+1] - 1; i >= from[s.node]; i-- {
			c := list[i]
			if t.Total[c] < least || t.Total[c] <= 0 {
				run += t.Total[c]
				continue
			}
			end()
			todo = append(todo, step{c, n, 0})
		}
		end()
	}
	return u
}
