package term

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// tape is what was recorded: the ticks of machine, one a second, from held's start to its end, but
// in a gap.
type tape struct {
	held   measure.Interval
	remark string
	broken []string
	gap    measure.Interval
	fails  error

	over   measure.Interval
	netns  string
	closed int
}

func (r *tape) Held() measure.Interval { return r.held }
func (r *tape) Remark() string         { return r.remark }
func (r *tape) Trouble() []string      { return r.broken }
func (r *tape) Close() error           { r.closed++; return nil }

func (r *tape) Findings(
	context.Context, measure.Interval, func(measure.Time, []byte) error,
) error {
	return nil
}

func (r *tape) Replay(over measure.Interval, netns string) Machine {
	r.over, r.netns = over, netns
	return &playing{
		machine{
			stats: []measure.Stat{
				{ID: "cpu.time", Kind: measure.Delta, Unit: measure.Nanoseconds},
				{ID: "disk.latency", Kind: measure.Dists, Unit: measure.Nanoseconds},
			},
		},
		r,
		over,
	}
}

type playing struct {
	machine
	tape *tape
	over measure.Interval
}

func (p *playing) Watch(
	ctx context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	step := queries[0].Step
	if step <= 0 || step > p.over.Span() {
		step = p.over.Span()
	}
	for at := p.over.Start; at < p.over.End; at = at.Add(step) {
		cell := measure.Interval{Start: at, End: at.Add(step)}
		tick := &measure.Tick{Over: cell}
		for _, q := range queries {
			a := &measure.Answer{
				Query:   q,
				Kind:    measure.Delta,
				Start:   at,
				Step:    step,
				Elapsed: []measure.Span{step},
			}
			switch {
			case cell.Start >= p.tape.gap.Start && cell.End <= p.tape.gap.End:
				a.Elapsed[0], a.Notes = 0, []string{"nothing was recorded then"}
			case q.Stat == "cpu.time":
				a.Labels = []string{"0", "idle", "usr"}
				a.Series = []measure.Series{
					{Key: []measure.Label{0, 1}, Values: []float64{0.75}},
					{Key: []measure.Label{0, 2}, Values: []float64{0.25}},
				}
			case q.Stat == "disk.latency": // one request per second
				d := measure.Dist{Base: 2}
				d.Add(2_000_000, uint64(step.Seconds()))
				a.Kind, a.Unit = measure.Dists, measure.Nanoseconds
				a.Series = []measure.Series{{}}
				a.Series[0].SetDists([]measure.Dist{d})
			case q.String() == "net.device.info by netns":
				a.Labels = []string{"", "blue"}
				a.Series = []measure.Series{
					{Key: []measure.Label{0}, Values: []float64{1}},
					{Key: []measure.Label{1}, Values: []float64{1}},
				}
			case q.String() == "net.device.info by device":
				a.Labels = []string{"eth0"}
				a.Series = []measure.Series{{Key: []measure.Label{0}, Values: []float64{1}}}
			}
			tick.Answers = append(tick.Answers, a)
		}
		if err := each(tick); err != nil {
			return err
		}
	}
	return nil
}

func rewind(t *testing.T, r *tape, args ...string) (status int, out, errs string) {
	t.Helper()
	var files [2]*os.File
	for i := range files {
		f, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	open := func(MachineOptions) (Machine, error) { return nil, errors.New("this machine was looked at") }
	p := Program{
		Version:  "v1",
		Open:     open,
		Terminal: Terminal{Out: files[0], Err: files[1], Width: 80},
		Recorded: func(dir string) (Recorded, error) {
			if dir == "/nowhere" {
				return nil, errors.New("nothing was recorded in /nowhere")
			}
			return r, r.fails
		},
	}
	status = Run(context.Background(), p, args)
	var texts [2]string
	for i, f := range files {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(b)
	}
	return status, texts[0], texts[1]
}

// anHour is a tape of the last hour.
func anHour() *tape {
	now := measure.Time(time.Now().Unix()) * 1e9
	return &tape{held: measure.Interval{Start: now - 3600e9, End: now}}
}

func TestPastIsShownLikeThePresent(t *testing.T) {
	for _, c := range []struct {
		line   string
		tables int // lines of JSON
		over   measure.Span
		end    measure.Span // before the newest
	}{
		{"cpu --at now", 1, measure.Second, 0},
		{"cpu --at -60s", 1, measure.Second, measure.Minute},
		{"cpu --at -60s 10", 1, 10 * measure.Second, measure.Minute},
		{"cpu --at -60s 10 3", 3, 30 * measure.Second, measure.Minute},
		{"cpu --from -10m", 1, 10 * measure.Minute, 0},
		{"cpu --from -10m --to -5m", 1, 5 * measure.Minute, 5 * measure.Minute},
		{"cpu --from -10m --to -5m 60", 5, 5 * measure.Minute, 5 * measure.Minute},
		{"cpu --from -10m --to -5m 60 2", 2, 5 * measure.Minute, 5 * measure.Minute},
		{"link --from -10m --to -5m", 1, 5 * measure.Minute, 5 * measure.Minute},
		{"nic --at -5m -i eth0", 1, measure.Second, 5 * measure.Minute},
		{"stat cpu.time --at -5m 2", 1, 2 * measure.Second, 5 * measure.Minute},
	} {
		r := anHour()
		status, out, errs := rewind(t, r, append(strings.Fields(c.line), "--json")...)
		short := c.over - r.over.Span()
		if strings.Contains(c.line, "--from -10m") && short > 0 && short <= 3*measure.Second {
			short = 0 // the clock went on since the newest
		}
		if late := r.over.End.Sub(r.held.End.Add(-c.end)); status != 0 ||
			strings.Count(out, "\n") != c.tables ||
			short != 0 ||
			late < 0 ||
			late > 3*measure.Second ||
			r.closed != 1 {
			t.Errorf(
				"%s: status %d, %s before the newest %v, closed %d times\n%s%s", c.line, status,
				r.over.Span(), r.held.End.Sub(r.over.End), r.closed, out, errs,
			)
		}
	}
	_, out, _ := rewind(t, anHour(), "cpu", "--from", "-10m", "--to", "-5m", "60")
	if strings.Count(out, "\n") != 1+5*2+3 || !strings.Contains(out, "Average  0     25.00") {
		t.Errorf("the average of five minutes is not the last line:\n%s", out)
	}
	r := anHour()
	rewind(t, r, "nic", "--at", "-5m", "--netns", "blue")
	if r.netns != "blue" {
		t.Errorf("--netns blue came as %q", r.netns)
	}
	// The evidence of a diagnosis names the namespace in its sentence; whoever copies it has no
	// more to say.
	for sentence, want := range map[string]string{
		`net.device.wire where device = "eth0" and netns = "blue"`: "all",
		`net.device.wire by netns where device = "netns"`:          "",
		"net.device.wire where":                                    "",
	} {
		if rewind(t, r, "stat", sentence, "--at", "-5m"); r.netns != want {
			t.Errorf("%s looked at %q, want %q", sentence, r.netns, want)
		}
	}
	if rewind(t, r, "stat", "net.device.wire where netns = blue", "--at", "-5m", "--netns", "blue"); r.netns != "blue" {
		t.Errorf("--netns blue of a sentence with a term came as %q", r.netns)
	}
	r.remark, r.broken = "no server runs: this is its archive", []string{"a part is damaged"}
	if _, _, errs := rewind(t, r, "cpu", "--at", "-5m"); !strings.Contains(
		errs, "note: no server runs",
	) ||
		!strings.Contains(errs, "note: a part is damaged") {
		t.Errorf("where it comes from is not said: %q", errs)
	}
}

func TestGapsAreSaidAndNotShown(t *testing.T) {
	r := anHour()
	r.gap = measure.Interval{Start: r.held.End - 3600e9, End: r.held.End - 390e9} // until 6:30 ago
	status, out, errs := rewind(t, r, "cpu", "--from", "-10m", "--to", "-5m", "100")
	if status != 0 || strings.Count(out, "0     25.00") != 1 ||
		strings.Count(errs, "nothing was recorded then") != 1 {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	status, out, _ = rewind(t, r, "cpu", "--from", "-10m", "--to", "-5m", "100", "--json")
	var first struct {
		Rows  []any
		Notes []string
	}
	line, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(line), &first); err != nil || status != 0 ||
		first.Rows == nil ||
		len(first.Rows) > 0 ||
		len(first.Notes) != 1 {
		t.Errorf("status %d, %v, %s", status, err, line)
	}
	for _, format := range []string{"", "--csv"} {
		args := []string{"cpu", "--at", "-15m"}
		if format != "" {
			args = append(args, format)
		}
		status, out, errs = rewind(t, r, args...)
		if status != exitFailed || out != "" ||
			!strings.Contains(errs, "nothing was recorded then") {
			t.Errorf("nothing but a gap%s: status %d, %q, %q", format, status, out, errs)
		}
	}
}

func TestWrongTimesExit2AndSayWhy(t *testing.T) {
	r := anHour()
	holds := "held is " + formatTime(r.held.Start) + " to "
	for line, want := range map[string]string{
		"cpu --at soon":                 "--at \"soon\": this is not a time; write 14:03:22",
		"cpu --from 2999-01-01":         "in the future",
		"cpu --from -5m --to -10m":      "--from -5m is after --to -10m",
		"cpu --from -5m --to -5m":       "no time lies between",
		"cpu --to -5m":                  "--to needs --from",
		"cpu --at -5m --from -10m":      "exclude each other",
		"cpu --from -2d --to -1d":       "nothing was recorded before " + formatTime(r.held.Start),
		"cpu --at -2d":                  holds,
		"cpu --at -5m 0.5":              "whole number of seconds",
		"cpu --at -5m 1.5":              "whole number of seconds",
		"cpu --at -5m --since-boot":     "--since-boot excludes",
		"cpu --dir /x":                  "--dir is for recorded times",
		"nic --at -5m -i et0":           "there was no \"et0\" then; did you mean eth0?",
		"nic --at -5m --netns bleu":     "there was no network namespace bleu then; there were blue; did you mean blue?",
		"cpu --form -5m":                "did you mean --from?",
		"diagnose --from -5m --for 10s": "--for and --from exclude each other",
		"diagnose --from -2s":           "too short for a diagnosis",
		"diagnose --dir /x":             "--dir is for",
		"stat cpu.time --at never":      "not a time",
		"watch swapping --before soon":  "--before \"soon\": this is not a time",
		"watch swapping --before -5m..": "give a time, or two as BEGIN..END",
		"watch swapping --dir /x":       "--dir is for recorded times: give --before too",
		"stat wrong --at -5m":           "there is no statistic wrong",
		"--from 12 --to 13":             "not a time",
	} {
		status, out, errs := rewind(t, r, strings.Fields(line)...)
		if status != exitUsage || !strings.Contains(errs, want) || out != "" {
			t.Errorf("%s: status %d, stdout %q, stderr %q, want %q", line, status, out, errs, want)
		}
	}
	old := &tape{held: measure.Interval{Start: 1e9, End: 1000e9}, remark: "no server runs"}
	for line, want := range map[string]string{
		"cpu --at now":   "no server runs; held is " + formatTime(1e9) + " to " + formatTime(1000e9),
		"cpu --from -5m": "nothing was recorded since",
	} {
		if status, _, errs := rewind(t, old, strings.Fields(line)...); status != exitUsage ||
			!strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %q, want %q", line, status, errs, want)
		}
	}
	for _, c := range []struct {
		tape       *tape
		line, want string
	}{
		{&tape{}, "cpu --at -5m", "nothing is recorded yet"},
		{&tape{broken: []string{"a part is damaged", "another"}}, "cpu --at -5m", "nothing is recorded yet: a new server needs a few seconds; a part is damaged (and 1 more)"},
		{anHour(), "cpu --at -5m --dir /nowhere", "nothing was recorded in /nowhere"},
	} {
		if status, _, errs := rewind(t, c.tape, strings.Fields(c.line)...); status != exitFailed ||
			!strings.Contains(errs, c.want) {
			t.Errorf("%s: status %d, %q, want %q", c.line, status, errs, c.want)
		}
	}
}

func TestTimesAreCompleted(t *testing.T) {
	for _, line := range []string{"__complete nic --at ", "__complete stat --from ", "__complete diagnose --to ", "__complete top --at ", "__complete --from "} {
		_, out, _ := rewind(t, anHour(), append(strings.Fields(line), "")...)
		if !strings.Contains(out, "-5m\n") || !strings.Contains(out, "now\n") {
			t.Errorf("%s: %q", line, out)
		}
	}
}
