package term

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/measure"
	"culprit/view"
	"culprit/view/classic"
)

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
	return runMachine(t, m, args...)
}

func runMachine(t *testing.T, m Machine, args ...string) (status int, out, err string) {
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
		"nic et0 1":           "there is no \"et0\" here; did you mean eth0?",
		"cpu et0":             "is not a number of seconds",
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
	for _, tool := range append(classic.All(), &view.Tool{Name: "stat"}, &view.Tool{Name: "diagnose"}) {
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
	heapbound.Fuzz(f, func(t *testing.T, s string) {
		span, err := parseInterval(s)
		if err == nil && (span < 10*measure.Millisecond || span > 24*3600*measure.Second) {
			t.Errorf("%q: %v", s, span)
		}
	})
}
