package classic

import (
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

func TestEveryToolOfEveryWidthShowsNothingAsNothing(t *testing.T) {
	for _, tool := range All() {
		for _, o := range []view.Options{
			{}, {"threads": {""}}, {"map": {""}}, {"udp": {""}}, {"all": {""}}, {"by": {"process"}},
			{"slabs": {""}}, {"extended": {""}},
		} {
			f := viewtest.Frame()
			for _, sentence := range tool.Ask(o) {
				f.Answers = append(f.Answers, viewtest.Answer(t, sentence, measure.Delta, false))
			}
			tab := tool.Table(o, f)
			for _, r := range tab.Rows {
				if len(r.Cells) != len(tab.Columns) {
					t.Fatalf(
						"%s %v: %d cells for %d columns", tool.Name, o, len(r.Cells),
						len(tab.Columns),
					)
				}
				for i, c := range r.Cells {
					if c.Kind == view.IsNumber && c.Num == 0 &&
						strings.HasSuffix(tab.Columns[i].Name, "_per_s") &&
						tool.Name != "flows" {
						t.Errorf(
							"%s: %s is 0 where nothing was measured", tool.Name,
							tab.Columns[i].Name,
						)
					}
				}
			}
			seen := map[string]bool{}
			for _, c := range tab.Columns {
				if c.Name != "" && seen[c.Name] {
					t.Errorf("%s: two columns named %s", tool.Name, c.Name)
				}
				seen[c.Name] = true
				if c.Name != "" && c.Help == "" {
					t.Errorf("%s: column %s has no help", tool.Name, c.Name)
				}
			}
		}
	}
}

func TestNotesWaitForTheirColumns(t *testing.T) {
	a := viewtest.Answer(t, "disk.errors by device", measure.Delta, false)
	b := viewtest.Answer(t, "disk.busy by device", measure.Delta, false)
	a.Notes, b.Notes = []string{"no disk counts", "both"}, []string{"both"}
	f := viewtest.Frame(a, b)
	viewtest.Expect(t, strings.Join(f.Notes(Disk().MinWidth, 80), ", "), "both")
	viewtest.Expect(t, strings.Join(f.Notes(Disk().MinWidth, 200), ", "), "no disk counts, both")
}
