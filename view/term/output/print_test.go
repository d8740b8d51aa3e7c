package output

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"culprit/measure"
	"culprit/view"
	"culprit/view/classic"
)

func sample() *view.Table {
	return &view.Table{
		View: "nic",
		Over: measure.Interval{Start: 1767323045000000006, End: 1767323046000300006},
		Columns: []view.Column{
			{
				Name:  "device",
				Head:  "Int",
				Width: 5,
				Left:  true,
				Help:  "x",
			}, {Name: "rx_bytes_per_s", Head: "rKB/s", Show: view.KiB, Decimals: 2, Width: 8, Help: "x"},
			{
				Name:     "util",
				Head:     "%Util",
				Show:     view.Percent,
				Decimals: 1,
				Width:    5,
				Help:     "x",
			}, {Name: "up", Help: "x"}, {Head: "wide", MinWidth: 120, Width: 4},
		},
		Rows: []view.Row{
			{
				Key: "b",
				Cells: []view.Cell{
					view.T("eth\"1"),
					view.N(1536.5),
					view.N(0.5),
					view.B(true),
					view.N(1),
				},
				Remark: "odd",
			},
			{
				Key: "a",
				Cells: []view.Cell{
					view.T("eth10"),
					view.N(math.NaN()),
					view.N(math.Inf(1)),
					{Kind: view.IsNull},
					view.N(2),
				},
			},
			{
				Key:   "t",
				Total: true,
				Cells: []view.Cell{view.T("all"), view.N(9), view.N(0), view.B(false), view.N(3)},
			},
		},
		Loss:  []measure.Loss{{Reason: "full", Events: 2}},
		Notes: []string{"careful"},
	}
}

func TestJSONIsOneObjectALine(t *testing.T) {
	const want = `{"format":1,"view":"nic","start":"2026-01-02T03:04:05.000000006Z","seconds":1.0003,"rows":[` +
		`{"device":"eth\"1","rx_bytes_per_s":1536.5,"util":0.5,"up":true,"remark":"odd"},{"device":"eth10","rx_bytes_per_s":null,"util":null,"up":null},` +
		`{"device":"all","rx_bytes_per_s":9,"util":0,"up":false}],"loss":[{"reason":"full","events":2}],"notes":["careful"]}`
	got := string(view.AppendJSON(nil, sample()))
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !json.Valid([]byte(got)) {
		t.Error("not JSON")
	}
	if got := string(view.AppendJSON(nil, &view.Table{View: "x"})); !strings.HasSuffix(
		got, `"rows":[],"loss":[],"notes":[]}`,
	) {
		t.Errorf("empty: %s", got)
	}
}

func TestScreenAndCSV(t *testing.T) {
	var b bytes.Buffer
	s := &Text{Out: &b, Width: 80}
	if err := s.Table(sample()); err != nil {
		t.Fatal(err)
	}
	if err := (&CSV{Out: &b}).Table(sample()); err != nil {
		t.Fatal(err)
	}
	const want = `Int      rKB/s %Util
eth"1     1.50  50.0  <- odd
eth10        -     -
all       0.01   0.0
time,seconds,device,rx_bytes_per_s,util,up
2026-01-02T03:04:06.000300006Z,1.0003,"eth""1",1536.5,0.5,true
2026-01-02T03:04:06.000300006Z,1.0003,eth10,,,
2026-01-02T03:04:06.000300006Z,1.0003,all,9,0,false
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestHeaderComesAgainEachScreen(t *testing.T) {
	var b bytes.Buffer
	s := &Text{Out: &b, Width: 80, Lines: 8}
	for range 4 {
		if err := s.Table(sample()); err != nil {
			t.Fatal(err)
		}
	}
	// 1 header and 2 tables of 3 lines fit in 8 lines.
	if n := strings.Count(b.String(), "%Util"); n != 2 {
		t.Errorf("%d headers\n%s", n, b.String())
	}
}

func TestSortKeepsTotalsAndPutsUnknownLast(t *testing.T) {
	tab := sample()
	SortRows(tab, 1, false)
	LimitRows(tab, 1)
	if len(tab.Rows) != 2 || tab.Rows[0].Key != "b" || tab.Rows[1].Key != "t" ||
		len(tab.Notes) != 2 {
		t.Errorf("%+v", tab.Rows)
	}
}

func TestReverseSortPutsUnknownLast(t *testing.T) {
	for _, c := range []struct {
		cells []view.Cell
		want  string
	}{
		{[]view.Cell{view.N(2), view.N(measure.NaN), view.N(-1), view.N(3)}, "2031"},
		{[]view.Cell{view.T("b"), view.TOrNull(""), view.T("c"), view.T("a")}, "2031"},
		{[]view.Cell{view.I("2"), view.I(""), view.I("1"), view.I("3")}, "2031"},
	} {
		tab := &view.Table{Columns: []view.Column{{Name: "x"}}}
		for i, cell := range c.cells {
			tab.Rows = append(
				tab.Rows, view.Row{Key: string(rune('0' + i)), Cells: []view.Cell{cell}},
			)
		}
		SortRows(tab, 0, true)
		got := ""
		for _, r := range tab.Rows {
			got += r.Key
		}
		if got != c.want {
			t.Errorf("%+v in reverse: %s, want %s", c.cells, got, c.want)
		}
	}
}

// The clock of a line is what the layout would give, at any time of any day.
func TestAppendClock(t *testing.T) {
	end := time.Unix(1_700_100_000, 0)
	for at := time.Unix(1_700_000_000, 0); at.Before(end); at = at.Add(997 * time.Second) {
		if got, want := string(appendClock(nil, at)), at.Local().Format("15:04:05"); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

// At any width from 80 on a line of a tool's own columns is no longer than the terminal; names of
// what there is may widen it.
func TestLinesFitTheTerminal(t *testing.T) {
	for _, tool := range classic.All() {
		if tool.Name == "link" || tool.Name == "stat" { // facts, as long as they are
			continue
		}
		for _, o := range []view.Options{
			{}, {"threads": {""}}, {"extended": {""}}, {"udp": {""}}, {"by": {"process"}},
			{"by": {"client"}},
		} {
			f := &view.Frame{}
			for _, sentence := range tool.Ask(o) {
				q, err := measure.ParseQuery(sentence)
				if err != nil {
					t.Fatal(err)
				}
				f.Answers = append(
					f.Answers, &measure.Answer{Query: q, Elapsed: []measure.Span{measure.Second}},
				)
			}
			tab := tool.Table(o, f)
			for width := 80; width < 300; width++ {
				s := &Text{Out: io.Discard, Width: width, Time: !tool.Once}
				if err := s.Table(tab); err != nil {
					t.Fatal(err)
				}
				for line := range bytes.Lines(s.page) {
					if n := utf8.RuneCount(bytes.TrimSuffix(line, []byte("\n"))); n > width {
						t.Fatalf("%s %v on %d columns: %d wide:\n%s", tool.Name, o, width, n, line)
					}
				}
			}
		}
	}
}

// A number that is too long for its column loses decimals before it moves the line, and a command
// line ends where the terminal does.
func TestCellsFit(t *testing.T) {
	tab := &view.Table{
		Columns: []view.Column{
			{Name: "a", Head: "a", Decimals: 2, Width: 7},
			{Name: "b", Head: "b", Decimals: 2, Width: 4},
			{Name: "c", Head: "c", Left: true, Cut: true, Width: 4},
		},
		Rows: []view.Row{
			{
				Cells: []view.Cell{
					view.N(12345.678),
					view.N(1234567),
					view.T("one argument after another, é"),
				},
			},
			{Cells: []view.Cell{view.N(1.5), view.N(9.996), view.T("two")}},
		},
	}
	s := &Text{Out: io.Discard, Width: 30}
	if err := s.Table(tab); err != nil {
		t.Fatal(err)
	}
	want := "      a    b c\n12345.7 1234567 one argument aft+\n   1.50 10.0 two\n"
	if got := string(s.page); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// On a terminal a name is cut if the line is too long. In a pipe it is not, since grep may
	// search for it.
	named := &view.Table{
		Columns: []view.Column{
			{Name: "a", Head: "a", Left: true, Cut: true, Width: 6},
			{Name: "b", Head: "b", Width: 4},
		},
		Rows: []view.Row{{Cells: []view.Cell{view.T("systemd-journal"), view.N(1)}}},
	}
	for _, c := range []struct {
		width, lines int
		want         string
	}{{15, 24, "a             b\nsystemd-j+    1\n"}, {20, 24, "a                  b\nsystemd-journal    1\n"}, {9, 24, "a         b\nsyste+    1\n"}, {15, 0, "a                  b\nsystemd-journal    1\n"}} {
		s := &Text{Out: io.Discard, Width: c.width, Lines: c.lines}
		if err := s.Table(named); err != nil {
			t.Fatal(err)
		}
		if got := string(s.page); got != c.want {
			t.Errorf("%d columns, %d lines: got\n%s\nwant\n%s", c.width, c.lines, got, c.want)
		}
	}
	if got := string(Truncate([]byte("xéé"), 1, 1)); got != "x+" {
		t.Errorf("%q", got)
	}
	if got := string(Truncate([]byte("xéé"), 1, 2)); got != "xéé" {
		t.Errorf("%q", got)
	}
}
