package family

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace/tracetest"
)

// familyOf returns the family that has a statistic.
func familyOf(t *testing.T, id measure.StatID) *Family {
	t.Helper()
	for _, f := range Families(0) {
		if f.stat(id) != nil {
			return f
		}
	}
	t.Fatalf("no family has %s", id)
	return nil
}

func queryOf(t *testing.T, sentence string) measure.Query {
	t.Helper()
	q, err := measure.ParseQuery(sentence)
	if err != nil {
		t.Fatal(err)
	}
	q.Step = 50 * measure.Millisecond
	return q
}

// Each head is whole, and each statistic alone has a program that parses, which the whole file's
// text has too.
func TestFamilies(t *testing.T) {
	seen := map[measure.StatID]bool{}
	for _, f := range Families(0) {
		if len(f.Stats()) == 0 {
			t.Errorf("%s.d has no statistics", f.file)
		}
		for _, st := range f.Stats() {
			if seen[st.ID] || !st.Traced || !st.Sparse || st.Program == "" || len(st.Fields) == 0 ||
				st.Unit == "" {
				t.Errorf("%+v", st)
			}
			seen[st.ID] = true
			q := measure.Query{Stat: st.ID}
			for _, field := range st.Fields {
				if q.By = append(q.By, field.Name); field.Help == "" {
					t.Errorf("%s by %s", st.ID, field.Name)
				}
			}
			p, err := f.program([]measure.Query{q}, 1)
			if err != nil {
				t.Errorf("%s: %v", st.ID, err)
				continue
			}
			text := syntax.Print(p.tree)
			if _, ds := syntax.Parse(text, syntax.Mode{}); ds != nil {
				t.Errorf("%s: %v in\n%s", st.ID, ds, text)
			}
			if n := strings.Count(text, "@"); n == 0 ||
				strings.Count(text, "@"+aggregationOf(st.ID)) != n {
				t.Errorf("%s alone is\n%s", st.ID, text)
			}
		}
	}
}

// An error of a head names the file and the line of the declaration.
func TestWrongHead(t *testing.T) {
	const begin = "/*\n * Some text.\n * More.\n *\n"
	tests := []struct{ name, text, want string }{
		{
			"no head", "syscall:::entry { @a = count(); }",
			"statistics/made.d:1: does not begin with a comment",
		},
		{
			"kind", begin + " * statistic a.b level ns by f: help\n */",
			`statistics/made.d:5: kind "level", want "delta" or "dist"`,
		},
		{
			"no help", begin + " * field f word: help\n * statistic a.b delta ns by f\n */",
			`statistics/made.d:6: want "statistic ID KIND UNIT by`,
		},
		{
			"unknown field", begin + " * statistic a.b delta ns by f g: help,\n" +
				" *     continued\n * field f word: help\n */",
			`statistics/made.d:5: no line declares field "g" of a.b`,
		},
		{
			"names", begin + " * field f word of nothing: help\n */",
			`statistics/made.d:5: no list of names "nothing"`,
		},
		{
			"type", begin + " * field f stack: help\n */",
			`statistics/made.d:5: type "stack", want "word" or "number"`,
		},
		{
			"unknown line after a continued one", begin + " * field f word: help,\n" +
				" *     continued\n * fields g word: help\n */",
			`statistics/made.d:7: want "statistic ...", "field ...", "without culprit", ` +
				`"optional ..." or "from Linux RELEASE": "fields g word: help"`,
		},
		{
			"without others", begin + " * without others\n */",
			`statistics/made.d:5: want "statistic ..."`,
		},
		{
			"optional", begin + " * optional\n */",
			`statistics/made.d:5: want "optional PROBE" or "optional argN of PROBE"`,
		},
		{
			"optional argument", begin + " * optional args of x:::y\n */",
			`statistics/made.d:5: want "optional PROBE" or "optional argN of PROBE"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := fstest.MapFS{"statistics/made.d": {Data: []byte(tt.text)}}
			_, err := parseFamilies(files)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

// An indented line of a head continues the declaration before it.
func TestHeadContinues(t *testing.T) {
	f, err := newFamily("made", `/*
 * Some text.
 *
 * statistic a.count delta event by name
 *     pid: how many
 *     there are
 * field name word: first
 * field pid number: second,
 *     continued
 */
x:::y { @a_count[execname, pid] = count(); }
`)
	if err != nil {
		t.Fatal(err)
	}
	st := f.Stats()[0]
	if st.Help != "how many there are" {
		t.Errorf("help %q", st.Help)
	}
	if len(st.Fields) != 2 || st.Fields[1].Help != "second, continued" {
		t.Errorf("fields %+v", st.Fields)
	}
}

// A program contains only what its queries need, here of two invented statistics.
func TestFamilyProgram(t *testing.T) {
	f, err := newFamily("made", `/*
 * statistic a.count delta event by name pid error: how many
 * statistic a.time delta ns by name pid error: how long
 * field name word: name
 * field pid number: process
 * field error word of errno: error
 * without culprit
 */
uint64_t sizes[uint64_t];
x:::begin { self->began = timestamp; sizes[arg0] = 1; self->twice = 2; }
x:::end { @a_count[execname, pid, errno] = count(); }
x:::end /self->began/ { this->d = timestamp - self->began; @a_time[execname, pid, errno] = sum(this->d); sizes[arg0] = 0; }
y:::end /sizes[arg0]/ { @a_time[execname, pid, 0] = sum(sizes[arg0]); }
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		asked, keys, text string
	}{
		{"a.count", "", "x:::end /pid != 7/ { @a_count = count(); }"},
		{"a.count by pid,error", "pid error", "x:::end /pid != 7/ { @a_count[pid, errno] = count(); }"},
		{`a.count by name where name = "x" and error = ENOENT`, "name=x error=ENOENT", `x:::end /pid != 7 && errno == 2 && execname == "x"/ { @a_count = count(); }`},
		{"a.count where error = ENOSUCH", "error", "x:::end /pid != 7/ { @a_count[errno] = count(); }"},
		{"a.count where error ~ \"ENOE*\"", "error", "x:::end /pid != 7 && (errno == 2 || errno == 8)/ { @a_count[errno] = count(); }"},
		{"a.count where pid in (1, 2) and pid != 3", "pid", "x:::end /pid != 7 && pid != 3 && (pid == 1 || pid == 2)/ { @a_count[pid] = count(); }"},
		{"a.count where pid = 007 and name ~ \"x*\"", "name pid", "x:::end /pid != 7/ { @a_count[execname, pid] = count(); }"},
		{"a.time where pid = 5 and name != \"y\"", "name pid=5", `x:::begin /pid != 7/ { self->began = timestamp; sizes[arg0] = 1; }
x:::end /pid != 7 && self->began/ { this->d = timestamp - self->began; if (execname != "y" && pid == 5) { @a_time[execname] = sum(this->d); } sizes[arg0] = 0; }
y:::end /pid != 7 && pid == 5 && sizes[arg0] && execname != "y"/ { @a_time[execname] = sum(sizes[arg0]); }`},
	} {
		p, err := f.program([]measure.Query{queryOf(t, c.asked)}, 7)
		if err != nil {
			t.Errorf("%s: %v", c.asked, err)
			continue
		}
		p.tree.Items = slices.DeleteFunc(p.tree.Items, func(i syntax.Item) bool {
			_, ok := i.(*syntax.Clause)
			return !ok
		})
		got, want := strings.Join(strings.Fields(syntax.Print(p.tree)), " "), parsed(t, c.text)
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", c.asked, got, want)
		}
		var keys []string
		for _, field := range p.stats[0].stat.Fields {
			key := field.Name
			if v, ok := p.stats[0].fixed[key]; ok {
				key += "=" + v
			}
			keys = append(keys, key)
		}
		if got := strings.Join(keys, " "); got != c.keys {
			t.Errorf("%s: keys %s, want %s", c.asked, got, c.keys)
		}
	}
}

// parsed returns a text as it is printed, with single blanks.
func parsed(t *testing.T, text string) string {
	t.Helper()
	tree, ds := syntax.Parse(text, syntax.Mode{})
	if ds != nil {
		t.Fatal(ds)
	}
	return strings.Join(strings.Fields(syntax.Print(tree)), " ")
}

// watchFamily runs queries until done returns true for what was reported: sums by query and key,
// and distributions.
func watchFamily(
	t *testing.T, sentences []string, begun func(), done func(*measured) bool,
) *measured {
	t.Helper()
	if err := feature.RawTracepoints.Have(kernel.Root{}); errors.Is(err, measure.ErrDenied) {
		t.Skip("needs: root")
	} else if err != nil {
		t.Skip("needs: kernel feature raw tracepoints")
	}
	var queries []measure.Query
	for _, s := range sentences {
		queries = append(queries, queryOf(t, s))
	}
	f := familyOf(t, queries[0].Stat)
	got := &measured{sums: map[string]float64{}, dists: map[string]measure.Dist{}}
	enough := errors.New("enough")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	first := true
	err := f.Run(ctx, queries, measure.SinkFunc(func(all []*measure.Batch) error {
		if len(all) != len(queries) {
			return fmt.Errorf("%d batches for %d queries", len(all), len(queries))
		}
		for _, b := range all {
			if b.Over.Span() <= 0 {
				return fmt.Errorf("%s could not look: %v", b.Stat, b.Notes)
			}
			for _, l := range b.Loss {
				return fmt.Errorf("%s lost %+v", b.Stat, l)
			}
			for i := range b.Rows() {
				words := []string{string(b.Stat)}
				for k, l := range b.Key(i) {
					words = append(words, b.By[k]+"="+b.Labels[l])
				}
				key := strings.Join(words, " ")
				if b.Dists != nil {
					d := got.dists[key]
					d.Base = b.Dists[i].Base
					d.Merge(b.Dists[i])
					got.dists[key] = d
				} else {
					got.sums[key] += b.Values[i]
				}
			}
		}
		if first { // what is made to be counted is all within intervals
			first = false
			begun()
		}
		if done(got) {
			return enough
		}
		return nil
	}))
	if !errors.Is(err, enough) {
		t.Fatalf("%v: %v, %v", err, got.sums, got.dists)
	}
	if f.ExternalCost() <= 0 {
		t.Error("it cost nothing")
	}
	if len(f.running) > 0 {
		t.Error("it still runs though nobody reads it")
	}
	return got
}

type measured struct {
	sums  map[string]float64
	dists map[string]measure.Dist
}

// A worker is this program run once more, as another process: what a family leaves out is not in
// it. It begins at a call of begin, and ends with the test.
type worker struct {
	pid   int
	name  string // of its threads
	in    io.WriteCloser
	lines *bufio.Reader
}

// workFor is the variable that says what a worker does.
const workFor = "CULPRIT_TEST_WORK"

func startWorker(t *testing.T, what string) *worker {
	t.Helper()
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// who waits for what it says gets an end, then
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(stop)
	c := exec.CommandContext(ctx, me, "-test.run", "^TestWorker$")
	c.Env, c.Stderr = append(os.Environ(), workFor+"="+what), os.Stderr
	in, out := tracetest.Pipe(t, c)
	t.Cleanup(func() {
		in.Close()
		if what == "forever" {
			stop()
		}
		c.Wait() //nolint:errcheck // the family measures what it did
	})
	name := filepath.Base(me)
	return &worker{c.Process.Pid, name[:min(len(name), 15)], in, bufio.NewReader(out)}
}

// begin lets it work.
func (w *worker) begin(t *testing.T) {
	if _, err := io.WriteString(w.in, "\n"); err != nil {
		t.Error(err)
	}
}

// said returns the numbers that it prints when it is done.
func (w *worker) said(t *testing.T, numbers ...any) {
	t.Helper()
	line, err := w.lines.ReadString('\n')
	if _, e := fmt.Sscan(line, numbers...); err != nil || e != nil {
		t.Fatalf("the worker said %q: %v, %v", line, err, e)
	}
}

// TestWorker is what a worker does: it is no test by itself.
func TestWorker(t *testing.T) {
	what := os.Getenv(workFor)
	if what == "" {
		return
	}
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n') //nolint:errcheck // the test has gone, then
	workers()[what]()
	in.ReadString('\n') //nolint:errcheck // it is the end
	os.Exit(0)
}
