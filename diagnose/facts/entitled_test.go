package facts

import (
	"math"
	"testing"
)

// TestEntitled compares the division with numbers computed by hand.
func TestEntitled(t *testing.T) {
	group := func(id string, v float64) Weight { return Weight{ID: id, Value: v} }
	process := func(id string, weight, used, waited float64, groups ...Weight) *Weighed {
		return &Weighed{Used: used, Waited: waited,
			Path: append(groups, Weight{ID: id, Value: weight, Task: true})}
	}
	for _, tt := range []struct {
		name string
		all  []*Weighed
		want []float64
	}{
		{"nice 19 and 0", []*Weighed{process("a", 15, 0.01, 0.99), process("b", 1024, 0.99, 0.01)},
			[]float64{15. / 1039, 1024. / 1039}},
		{"equal, one wants less", []*Weighed{process("a", 1024, 0.2, 0),
			process("b", 1024, 0.8, 0.2), process("c", 1024, 1, 0)}, []float64{0.2, 0.9, 0.9}},
		{"groups", []*Weighed{process("a", 1024, 0.01, 0.99, group("/x", 2)),
			process("b", 1024, 1.99, 0.01, group("/y", 1022))},
			[]float64{2 * 2. / 1024, 2 * 1022. / 1024}},
		{"several in a group", []*Weighed{process("a", 1024, 0, 1, group("/x", 256)),
			process("b", 3072, 0, 1, group("/x", 256)),
			process("c", 1024, 1, 1, group("/y", 768))}, []float64{1. / 16, 3. / 16, 3. / 4}},
		{"two threads of a process", []*Weighed{process("a", 1024, 0.4, 1.6),
			process("b", 1024, 0.6, 0.4)}, []float64{2. / 3, 1. / 3}},
		{"nobody", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := Entitled(tt.all)
			for i, want := range tt.want {
				if math.Abs(got[i]-want) > 1e-9 {
					t.Errorf("process %d: %g, want %g", i, got[i], want)
				}
			}
		})
	}
}
