package classic

import (
	"fmt"
	"strconv"
	"testing"

	"culprit/measure"
	"culprit/view"
)

// repeatedFrame returns answers to the queries of a tool, for n devices or processes. word returns
// the value of a field in row i. The answers have columns and shapes, as live answers do.
func repeatedFrame(
	b *testing.B, t *view.Tool, o view.Options, n int, word func(field string, i int) string,
) *view.Frame {
	b.Helper()
	var labels []string
	f := &view.Frame{}
	for _, text := range t.Ask(o) {
		q, err := measure.ParseQuery(text)
		if err != nil {
			b.Fatal(err)
		}
		a := &measure.Answer{Query: q, Elapsed: []measure.Span{measure.Second}}
		values := make([]float64, 0, 2*n)
		for i := range n {
			directions := []string{"rx", "tx"}
			if a.FieldIndex("direction") < 0 {
				directions = directions[:1]
			}
			for _, d := range directions {
				var key []measure.Label
				for _, field := range q.By {
					w := word(field, i)
					if field == "direction" {
						w = d
					}
					key = append(key, measure.Label(len(labels)))
					labels = append(labels, w)
				}
				values = append(values, float64(i+1))
				at := len(values) - 1
				a.Series = append(a.Series, measure.Series{Key: key, Values: values[at : at+1]})
			}
		}
		a.SetColumn(values, measure.NewShape())
		f.Answers = append(f.Answers, a)
	}
	for _, a := range f.Answers {
		a.Labels = labels
	}
	return f
}

// BenchmarkTables makes tables of frames with the same rows. Without repeated calls of the pivot,
// nic takes eight times as long; without Buffers, twenty times.
func BenchmarkTables(b *testing.B) {
	for _, c := range []struct {
		tool *view.Tool
		rows int
	}{{NIC(), 2}, {NIC(), 100}, {Disk(), 4}, {PS(), 100}, {PS(), 2000}, {CPU(), 4}} {
		b.Run(c.tool.Name+"/"+strconv.Itoa(c.rows), func(b *testing.B) {
			f := repeatedFrame(b, c.tool, nil, c.rows, func(field string, i int) string {
				switch field {
				case "netns":
					return ""
				case "admin":
					return "up"
				}
				return fmt.Sprint("eth", i)
			})
			f.Buffers = &view.Buffers{}
			b.ReportAllocs()
			for b.Loop() {
				c.tool.Table(nil, f)
			}
		})
	}
}
