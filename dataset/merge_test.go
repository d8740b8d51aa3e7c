package dataset

import (
	"testing"

	"culprit/measure"
)

// A source is queried for the fields of all queries, those of their terms included, and may leave
// out only rows that none of them selects.
func TestMerge(t *testing.T) {
	for _, c := range []struct {
		asked []string
		want  string
	}{
		{[]string{"a.b by x where y = 1"}, `a.b by x,y where y = 1`},
		{[]string{"a.b by x where y = 1 and x = 2", "a.b by z where y = 1"}, `a.b by x,y,z where y = 1`},
		{[]string{"a.b by x where y = 1", "a.b where y = 2"}, `a.b by x,y`},
		{[]string{"a.b by x", "a.b where y = 2"}, `a.b by x,y`},
		{[]string{"a.b where y in (1, 2)", "a.b where y in (2, 1)"}, `a.b by y where y in (1, 2)`},
	} {
		var asked []measure.Query
		for _, s := range c.asked {
			q, err := measure.ParseQuery(s)
			if err != nil {
				t.Fatal(err)
			}
			asked = merge(asked, q, measure.Second)
		}
		if len(asked) != 1 || asked[0].String() != c.want || asked[0].Step != measure.Second {
			t.Errorf("%v: asked for %v, want %s", c.asked, asked, c.want)
		}
	}
	a := map[int][]measure.Query{
		0: {
			{
				Stat:  "a.b",
				By:    []string{"x"},
				Where: []measure.Term{{Field: "x", Op: measure.Equal, Values: []string{"1"}}},
			},
		},
	}
	b := map[int][]measure.Query{0: {{Stat: "a.b", By: []string{"x"}}}}
	if !same(a, a) || same(a, b) || same(b, a) {
		t.Error("a run that leaves rows out is not the same as one that does not")
	}
}
