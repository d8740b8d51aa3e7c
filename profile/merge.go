package profile

import "fmt"

// Merge returns the sum of profiles. The error says that their units differ.
func Merge(all ...*Tree) (*Tree, error) {
	if len(all) == 1 {
		return all[0], nil
	}
	b := NewBuilder()
	u := b.tree
	samples, seconds, timed := 0.0, 0.0, false
	for k, t := range all {
		if t.Unit != all[0].Unit {
			return nil, fmt.Errorf("profiles of %s and of %s can't be added up", clean(all[0].Unit),
				clean(t.Unit))
		}
		to := make([]uint32, len(t.Functions))
		for i := 1; i < len(to); i++ {
			f := &t.Functions[i]
			to[i] = b.Function([]byte(f.Name), []byte(f.Module), f.Kind)
			if g := &u.Functions[to[i]]; g.File == "" {
				g.File, g.Line = f.File, f.Line
			}
		}
		timed = timed || t.Times != nil
		b.lines.join(t.Lines, to)
		at := make([]Call, t.Len())
		b.Add(0, t.Self[0])
		for i := 1; i < t.Len(); i++ {
			at[i] = b.Child(at[t.Parent[i]], to[t.Function[i]])
			b.Add(at[i].Node, t.Self[i])
		}
		for _, n := range t.Notes {
			u.note(n)
		}
		// A sum is unknown when one of its parts is.
		if n := t.sampled(); n == n && (k == 0 || samples > 0) {
			samples += n
		} else {
			samples = 0
		}
		if t.Seconds > 0 && (k == 0 || seconds > 0) {
			seconds += t.Seconds
		} else {
			seconds = 0
		}
	}
	t := b.Tree()
	t.Unit, t.Samples, t.Seconds, t.Taken = all[0].Unit, samples, seconds, taken(all)
	if timed {
		t.note("several profiles are added up: there is no order of time between them")
	}
	return t, nil
}

// taken returns the earliest start of several profiles and the sum of their lengths.
func taken(all []*Tree) Taken {
	out := all[0].Taken
	for _, t := range all[1:] {
		out.At = min(out.At, t.Taken.At)
		if out.Over > 0 && t.Taken.Over > 0 {
			out.Over += t.Taken.Over
		} else {
			out.Over = 0
		}
		if out.Each != t.Taken.Each {
			out.Each = 0
		}
	}
	return out
}
