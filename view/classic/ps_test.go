package classic

import (
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

// A process that began and ended between two readings has no row. Its CPU time is in a column of
// the process that waited for it; a note says so if the time is long.
func TestShortLivedChildrenHaveAColumn(t *testing.T) {
	ps := func(short string) *view.Table {
		return PS().Table(view.Options{"pid": {"1", "2"}}, viewtest.Frame(
			viewtest.Answer(
				t, "process.cpu by pid,process,mode", measure.Delta, true, "1 sh usr 0.01",
				"2 cc usr 0.5",
			),
			viewtest.Answer(
				t, "process.short by pid,process", measure.Delta, true, "1 sh "+short, "3 make 0.9",
			),
		))
	}
	tab := ps("0.7")
	viewtest.Expect(t, viewtest.Text(tab, "pid", "usr", "children"), "2 50 0\n1 1 70")
	viewtest.Expect(
		t, strings.Join(tab.Notes, "\n"),
		"the CPU time of processes too short-lived to have a row is %KIDS of their parent (-w shows it)",
	)
	viewtest.Expect(t, strings.Join(ps("0.01").Notes, "\n"), "")
}
