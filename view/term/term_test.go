package term

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"culprit/measure"
	"culprit/view"
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
	const want = `{"view":"nic","start":"2026-01-02T03:04:05.000000006Z","seconds":1.0003,"rows":[` +
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
	s := &textPrinter{out: &b, width: 80}
	if err := s.table(sample()); err != nil {
		t.Fatal(err)
	}
	if err := (&csvPrinter{out: &b}).table(sample()); err != nil {
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
	s := &textPrinter{out: &b, width: 80, lines: 8}
	for range 4 {
		if err := s.table(sample()); err != nil {
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
	sortRows(tab, 1, false)
	limitRows(tab, 1)
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
		sortRows(tab, 0, true)
		got := ""
		for _, r := range tab.Rows {
			got += r.Key
		}
		if got != c.want {
			t.Errorf("%+v in reverse: %s, want %s", c.cells, got, c.want)
		}
	}
}

// machine plays a script of ticks.
type machine struct {
	stats []measure.Stat
	ticks int
	err   error
	hint  string
}

func (m *machine) Stats() []measure.Stat { return m.stats }

func (m *machine) Parse(s string) (measure.Query, error) {
	q, err := measure.ParseQuery(s)
	if err == nil && strings.HasPrefix(s, "wrong") {
		err = &measure.Diagnostic{
			Text:    s,
			Pos:     0,
			Len:     5,
			Message: "there is no statistic wrong",
			Hint:    cmp.Or(m.hint, "did you mean right?"),
		}
	}
	return q, err
}

func (m *machine) Watch(
	_ context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	for n := range m.ticks {
		start := measure.Time(n+1) * 1e9
		tick := &measure.Tick{Over: measure.Interval{Start: start, End: start + 1e9}}
		for _, q := range queries {
			a := &measure.Answer{
				Query:   q,
				Kind:    measure.Delta,
				Start:   start,
				Step:    measure.Second,
				Elapsed: []measure.Span{measure.Second},
			}
			if q.Stat == "cpu.time" {
				a.Labels = []string{"0", "idle", "usr"}
				a.Series = []measure.Series{
					{Key: []measure.Label{0, 1}, Values: []float64{1}},
					{Key: []measure.Label{0, 2}, Values: []float64{float64(n)}},
				}
			}
			if q.String() == "net.device.info by device" || q.String() == "disk.info by device" {
				a.Labels = []string{"eth0"}
				a.Series = []measure.Series{{Key: []measure.Label{0}, Values: []float64{1}}}
			}
			if len(q.By) == 0 {
				a.Series = []measure.Series{{Values: []float64{float64(n)}}}
			}
			tick.Answers = append(tick.Answers, a)
		}
		if err := each(tick); err != nil {
			return err
		}
	}
	return m.err
}

func (m *machine) Record(context.Context, []measure.Query, int, func(int)) (measure.Reader, error) {
	return nil, errors.New("no recording here")
}

func run(t *testing.T, m *machine, args ...string) (status int, out, err string) {
	t.Helper()
	dir := t.TempDir()
	files := [2]*os.File{}
	for i, name := range []string{"out", "err"} {
		f, e := os.Create(filepath.Join(dir, name))
		if e != nil {
			t.Fatal(e)
		}
		defer f.Close()
		files[i] = f
	}
	p := Program{
		Version:  "v1",
		Open:     func(MachineOptions) (Machine, error) { return m, nil },
		Terminal: Terminal{Out: files[0], Err: files[1], Width: 80},
	}
	status = Run(context.Background(), p, args)
	texts := [2]string{}
	for i, f := range files {
		if _, e := f.Seek(0, io.SeekStart); e != nil {
			t.Fatal(e)
		}
		b, e := io.ReadAll(f)
		if e != nil {
			t.Fatal(e)
		}
		texts[i] = string(b)
	}
	return status, texts[0], texts[1]
}

func TestCountAndAverage(t *testing.T) {
	status, out, errs := run(t, &machine{ticks: 5}, "cpu", "1", "2", "--csv")
	if status != 0 || strings.Count(out, "\n") != 5 || errs != "" {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	status, out, _ = run(t, &machine{ticks: 5}, "cpu", "1", "2")
	if status != 0 || !strings.Contains(out, "Average  0     33.33") {
		t.Errorf("status %d\n%s", status, out)
	}
}

func TestWrongUsageExits2AndSaysWhatIsNear(t *testing.T) {
	for line, want := range map[string]string{
		"cpu 0":               "interval \"0\" is out of range",
		"cpu 1s2":             "is not a number of seconds",
		"cpu nan":             "out of range",
		"cpu 1 0":             "count \"0\" is not a positive number",
		"cpu 1 2 3":           "unexpected \"3\"",
		"cpu 1 1 --sort usrr": "did you mean usr?",
		"cpu --extnded":       "did you mean --extended?",
		"flows --by proces":   "did you mean process?",
		"cpuu":                "did you mean cpu?",
		"cpu --json --csv":    "exclude each other",
		"nic -i et0":          "there is no \"et0\" here; did you mean eth0?",
		"disk -d eth0,sdx 1":  "there is no \"sdx\" here",
		"stat":                "which statistic?",
		"stat -l nothing":     "no statistic has nothing",
		"stat wrong":          "there is no statistic wrong\nhint: did you mean right?",
		"stat \"a b\"":        "",
		"diagnose --for 1s":   "give a time from 3s to 1h",
	} {
		status, out, errs := run(t, &machine{ticks: 3}, strings.Fields(line)...)
		if status != 2 || !strings.Contains(errs, want) || out != "" {
			t.Errorf("%s: status %d, stdout %q, stderr %q", line, status, out, errs)
		}
	}
}

// Anybody may give a namespace or a process a name with escape sequences: a hint that has it
// commands no terminal.
func TestHintsHaveNoControlCharacters(t *testing.T) {
	status, _, errs := run(t, &machine{hint: "did you mean a\x1b[31mb\u202e?"}, "stat", "wrong")
	if status != 2 ||
		!strings.Contains(
			errs, "\n  ^^^^^\nthere is no statistic wrong\nhint: did you mean a?[31mb??\n",
		) {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}

func TestFailureExits1(t *testing.T) {
	status, _, errs := run(t, &machine{err: errors.New("the kernel is gone")}, "cpu", "1")
	if status != 1 || !strings.Contains(errs, "the kernel is gone") {
		t.Errorf("status %d, %s", status, errs)
	}
}

func TestHelpOfEveryCommandHasExamples(t *testing.T) {
	for _, tool := range append(view.Tools(), &view.Tool{Name: "stat"}, &view.Tool{Name: "diagnose"}) {
		status, out, _ := run(t, &machine{}, tool.Name, "-h")
		if status != 0 || !strings.Contains(out, "Examples:") || !strings.Contains(out, "--json") {
			t.Errorf("%s -h: status %d\n%s", tool.Name, status, out)
		}
		for _, line := range strings.Split(out, "\n") {
			if len(line) > 170 {
				t.Errorf("%s -h: a line of %d", tool.Name, len(line))
			}
		}
	}
}

func FuzzInterval(f *testing.F) {
	f.Add("1")
	f.Add("250ms")
	f.Add("1e300")
	f.Fuzz(func(t *testing.T, s string) {
		span, err := parseInterval(s)
		if err == nil && (span < 10*measure.Millisecond || span > 24*3600*measure.Second) {
			t.Errorf("%q: %v", s, span)
		}
	})
}

func TestDiagnosisStep(t *testing.T) {
	for span, want := range map[time.Duration]measure.Span{
		3 * time.Second: 1, 10 * time.Second: 1, 5 * time.Minute: 1, 301 * time.Second: 2,
		10 * time.Minute: 2, time.Hour: 12,
	} {
		if got := diagnosisStep(span); got != want*measure.Second ||
			span/got.AsDuration() > maxIntervals {
			t.Errorf("%v is looked at in intervals of %v, want %d s", span, got.AsDuration(), want)
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
	for _, tool := range view.Tools() {
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
				s := &textPrinter{out: io.Discard, width: width, time: !tool.Once}
				if err := s.table(tab); err != nil {
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
	s := &textPrinter{out: io.Discard, width: 30}
	if err := s.table(tab); err != nil {
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
		s := &textPrinter{out: io.Discard, width: c.width, lines: c.lines}
		if err := s.table(named); err != nil {
			t.Fatal(err)
		}
		if got := string(s.page); got != c.want {
			t.Errorf("%d columns, %d lines: got\n%s\nwant\n%s", c.width, c.lines, got, c.want)
		}
	}
	if got := string(truncate([]byte("xéé"), 1, 1)); got != "x+" {
		t.Errorf("%q", got)
	}
	if got := string(truncate([]byte("xéé"), 1, 2)); got != "xéé" {
		t.Errorf("%q", got)
	}
}
