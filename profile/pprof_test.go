package profile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/measure"

	"github.com/google/pprof/profile"
)

// TestPProfFiles checks the result or the error of each file of testdata/pprof.
func TestPProfFiles(t *testing.T) {
	for _, c := range []struct {
		file   string
		o      Options
		folded string
		says   string // of the notes, or of the error where folded is ""
	}{
		{"d02-labels", Options{}, "main;work 100000000\n", "the labels bytes, request, thread: --label NAME"},
		{"d02-labels", Options{Label: "thread", Value: "samples"}, "alpha;main;work 3\nbeta;main;work 7\n", ""},
		{"d02-labels", Options{Label: "bytes", Value: "samples"}, "64;main;work 7\n[bytes is not set];main;work 3\n", ""},
		{"d02-labels", Options{Label: "x"}, "", `no sample has the label "x"; there are bytes, request, thread`},
		{"d02-labels", Options{Value: "x"}, "", `there is no value "x"; there are samples, cpu`},
		{"d03-negative", Options{}, "", "1 sample has a negative amount, so it is the difference of two profiles: compare those"},
		{"d04-lines", Options{}, "main;work 10\n", ""},
		{"d05-same-name", Options{}, "main;init 10\n", ""},
		{"d06-inline", Options{}, "main;outer;inner 5\n", ""},
		{"d07-no-samples", Options{}, "", "the profile has no samples"},
		{"d08-no-location", Options{}, "[no stack] 4\nmain 6\n", ""},
		{"d09-default", Options{}, "main 2\n", "the values are alloc_objects, alloc_space, inuse_objects, inuse_space; this is inuse_objects"},
		{"d10-zero-last", Options{}, "", "all amounts of delay are 0: choose another value with --value: contentions"},
		{"d10-zero-last", Options{Value: "contentions"}, "main 5\n", ""},
		{"d11-names", Options{}, "größe→main;f[a:b] 5\n", ""},
		{"o01-otlp", Options{}, "", "OpenTelemetry: the profile has no samples"},
	} {
		files, err := filepath.Glob("testdata/pprof/" + c.file + ".pb*")
		if err != nil || len(files) != 1 {
			t.Fatal(c.file, files, err)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		tree, err := Read(never, bytes.NewReader(b), c.file, c.o)
		if c.folded == "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s %+v: %v, want %q", c.file, c.o, err, c.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %+v: %v", c.file, c.o, err)
			continue
		}
		if got := folded(t, tree); got != c.folded ||
			!strings.Contains(strings.Join(tree.Notes, "\n"), c.says) {
			t.Errorf("%s %+v: %q, want %q; notes %q, want %q", c.file, c.o, got, c.folded,
				tree.Notes, c.says)
		}
	}
}

// TestPProfDropFrames checks that frames that a profile drops are dropped with their callees, as
// pprof does.
func TestPProfDropFrames(t *testing.T) {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}},
		DropFrames: "malloc.*", KeepFrames: "malloc_kept"}
	s := &profile.Sample{Value: []int64{10}}
	for i, name := range []string{"malloc_internal", "malloc", "work", "main"} {
		f := &profile.Function{ID: uint64(i + 1), Name: name}
		l := &profile.Location{ID: uint64(i + 1), Line: []profile.Line{{Function: f}}}
		p.Function, p.Location, s.Location = append(p.Function, f), append(p.Location,
			l), append(s.Location, l)
	}
	p.Sample = []*profile.Sample{s}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	tree, err := Read(never, &b, "f", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := folded(t, tree); got != "main;work 10\n" {
		t.Errorf("%q", got)
	}
}

// TestPProfForServers checks that written profiles are accepted by Parca and Pyroscope. They name a
// profile by its sample type and period type, and pprof looks for symbols where a mapping does not
// say that it has functions.
func TestPProfForServers(t *testing.T) {
	const text = "main;work 70\nmain;other 30\n"
	each := measure.Second / 49
	for name, c := range map[string]struct {
		unit    string
		seconds float64
		taken   Taken
		types   string
		values  []int64 // of the whole
	}{
		"CPU":         {"samples", 3, Taken{At: 1e18, Over: 3 * measure.Second, Each: each}, "samples/count cpu/nanoseconds by cpu/nanoseconds", []int64{100, 100 * int64(each)}},
		"waits":       {"ns", 0, Taken{At: 1e18, Over: measure.Second}, "delay/nanoseconds by delay/nanoseconds", []int64{100}},
		"CPU time":    {"ns", 3, Taken{}, "cpu/nanoseconds by cpu/nanoseconds", []int64{100}},
		"memory":      {"bytes", 0, Taken{}, "space/bytes by space/bytes", []int64{100}},
		"events":      {"cycles", 0, Taken{}, "cycles/count by cycles/count", []int64{100}},
		"bare folded": {"samples", 0, Taken{}, "samples/count by samples/count", []int64{100}},
		"no unit":     {"", 0, Taken{}, "samples/count by samples/count", []int64{100}},
	} {
		tree := profileOf(t, text)
		tree.Unit, tree.Seconds, tree.Taken = c.unit, c.seconds, c.taken
		tree.note("3 samples were lost")
		for i := 1; i < len(tree.Functions); i++ {
			tree.Functions[i].Module = "a.out"
		}
		var b bytes.Buffer
		if err := WritePProf(&b, tree); err != nil {
			t.Fatal(err)
		}
		p, err := profile.Parse(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		types := ""
		for _, v := range p.SampleType {
			types += v.Type + "/" + v.Unit + " "
		}
		types += "by " + p.PeriodType.Type + "/" + p.PeriodType.Unit
		if types != c.types || p.Period <= 0 {
			t.Errorf("%s: %s, period %d; want %s", name, types, p.Period, c.types)
		}
		if p.TimeNanos != int64(c.taken.At) || p.DurationNanos != int64(c.taken.Over) ||
			c.taken.Each > 0 && p.Period != int64(c.taken.Each) {
			t.Errorf("%s: at %d for %d, period %d; want %+v", name, p.TimeNanos, p.DurationNanos,
				p.Period, c.taken)
		}
		sums := make([]int64, len(p.SampleType))
		for _, s := range p.Sample {
			for i, v := range s.Value {
				sums[i] += v
			}
		}
		for i, want := range c.values {
			if sums[i] != want {
				t.Errorf("%s: %d of %s, want %d", name, sums[i], p.SampleType[i].Type, want)
			}
		}
		for _, m := range p.Mapping {
			if !m.HasFunctions {
				t.Errorf("%s: pprof would look for symbols in %s", name, m.File)
			}
		}
		back, err := Read(never, &b, "f", Options{Value: p.SampleType[0].Type})
		if err != nil {
			t.Fatal(err)
		}
		if got := folded(t, back); got != folded(t, tree) || back.Taken != c.taken ||
			!strings.Contains(strings.Join(back.Notes, "\n"), "3 samples were lost") {
			t.Errorf("%s came back as %q, %+v, notes %q", name, got, back.Taken, back.Notes)
		}
	}
}
