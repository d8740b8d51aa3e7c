package profile

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// corpus is the result of each file of testdata/corpus: the sum of its amounts, or words of the
// error.
//
// table: file and result
var corpus = map[string]struct {
	sum    float64
	stacks string // folded; "": not compared
	advice string
}{
	"perf-header.txt":            {130, "app;main;spin 130\n", ""},
	"perf-pid-tid.txt.gz":        {100, "app;main;spin 100\n", ""},
	"perf-task-events.txt":       {100, "app;main;spin 100\n", ""},
	"perf-no-dso.txt":            {100, "app;main;spin 100\n", ""},
	"perf-sched.txt":             {1, "app;schedule;__schedule 1\n", ""},
	"perf-utf16.txt":             {100, "app;main;spin 100\n", ""},
	"simpleperf.txt":             {1000, "Worker;main;Lock::unlock 1000\n", ""},
	"folded.txt":                 {10, "main;a 3\nmain;b 7\n", ""},
	"folded-floats.txt":          {0.13, "main;a 0.13\n", ""},
	"austin.txt":                 {1000, "", ""},
	"dtrace.txt":                 {3, "unix`b;unix`a 3\n", ""},
	"bcc-profile.txt":            {10, "app;main;other 3\napp;main;work 7\n", ""},
	"bpftrace.txt":               {4, "g;f 4\n", ""},
	"pmcstat.txt":                {10, "main;other 3\nmain;work 7\n", ""},
	"goroutines.txt":             {2, "main.main 1\nmain.w 1\n", ""},
	"speedscope-sampled.json":    {0.38, "a 0.25\na;b 0.13\n", ""},
	"speedscope-incomplete.json": {10, "a 10\n", ""},
	"chrome-trace.json":          {5000, "a 5000\n", ""},
	"hermes.json":                {2, "main 2\n", ""},
	"gecko.json.gz":              {2, "main 2\n", ""},
	"old.cpuprofile":             {4, "a 4\n", ""},
	"v8.heapprofile":             {64, "a 64\n", ""},
	"stackprof.json":             {2, "m 2\n", ""},
	"firefox-devtools.json":      {3, "main 1\nmain;work 2\n", ""},
	"gecko-3.json":               {3, "Content;paint 2\nGeckoMain;main 1\n", ""},
	"hermes-threads.json":        {4, "js;root;f 3\nthread 7/2;root 1\n", ""},
	"chrome-strings.json":        {4500, "a 4500\n", ""},
	"chrome-threads.json":        {40000, "[no stack] 10000\na 30000\n", ""},
	"chrome-parents.json":        {35000, "a 20000\na;b 15000\n", ""},
	"cut.cpuprofile":             {30000, "[unknown] 10000\na 20000\n", ""},
	"folded.txt.zst":             {10, "main;a 3\nmain;b 7\n", ""},
	"folded.txt.bz2":             {10, "main;a 3\nmain;b 7\n", ""},
	"folded.txt.xz":              {10, "main;a 3\nmain;b 7\n", ""},
	"folded.zst.gz":              {10, "main;a 3\nmain;b 7\n", ""},
	"skippable.zst":              {10, "main;a 3\nmain;b 7\n", ""},
	"perf.txt.zst":               {100, "app;main;spin 100\n", ""},
	"instruments.txt":            {1e10, "app;main;seventy 7000000000\napp;main;thirty 3000000000\n", ""},
	"instruments-bytes.txt":      {10240, "main 1024\nmain;seven 7168\nmain;two 2048\n", ""},
	"haskell.json":               {10, "MAIN.MAIN 3\nMAIN.MAIN;Main.work 7\n", ""},
	"safari.json":                {1e7, "outer 3000000\nouter;inner 7000000\n", ""},
	"legacy-cpu.gperf":           {1e8, "0x400100;0x400050 70000000\n0x400200 30000000\n", ""},
	"legacy-heap.gperf":          {264197, "", ""},
	"legacy-contention.gperf":    {5e6, "", ""},
	"graph.dot":                  {advice: "dot"},
	"script.log":                 {advice: "Papyrus"},
	"bz-name.txt":                {7, "BZhe;main 3\nBZhe;other 4\n", ""},
	"archive.tar.gz":             {advice: "tar -xf"},
	"callgrind.out":              {advice: "a file of callgrind"},
	"dhat.json":                  {advice: "DHAT"},
	"v8-preprocessed.json":       {advice: "--cpu-prof"},
	"v8.log":                     {advice: "--cpu-prof"},
	"papyrus.log":                {advice: "Papyrus"},
	"art.trace":                  {advice: "Android"},
	"perf.data":                  {56112224, "tiny;[libc.so.6];[tiny];[tiny] 56112224\n", ""},
	"mpstat.txt":                 {advice: "culprit flame reads stacks"},
}

func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*")
	if err != nil || len(files) != len(corpus) {
		t.Fatalf("%d files, %d results, %v", len(files), len(corpus), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			want, ok := corpus[filepath.Base(name)]
			if !ok {
				t.Fatal("no result")
			}
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close() //nolint:errcheck // read
			tree, err := Read(never, f, "", Options{})
			if want.advice != "" {
				if err == nil || !strings.Contains(err.Error(), want.advice) {
					t.Errorf("%v, want %s", err, want.advice)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(tree.Sum()-want.sum) > 1e-9 {
				t.Errorf("sum %v, want %v", tree.Sum(), want.sum)
			}
			if got := folded(t, tree); want.stacks != "" && got != want.stacks {
				t.Errorf("got\n%swant\n%s", got, want.stacks)
			}
		})
	}
}

// TestCorpusComments inserts a comment at the start, at the end and after each empty line of each
// text of the corpus, and after each line of formats with a stack per line. The stacks must not
// change.
func TestCorpusComments(t *testing.T) {
	texts := 0
	for name, want := range corpus {
		if want.advice != "" || !strings.HasSuffix(name, ".txt") ||
			strings.Contains(name, "utf16") {
			continue
		}
		texts++
		raw, err := os.ReadFile(filepath.Join("testdata/corpus", name))
		if err != nil {
			t.Fatal(err)
		}
		in := string(raw)
		plain := fold(t, in, Options{})
		each := "\n\n"
		if strings.Contains(name, "folded") || strings.Contains(name, "austin") {
			each = "\n"
		}
		for _, comment := range []string{
			"# interval: 5\n", "#\n", "# cmdline : a;b 5\n", "# L1 Data 32K [0-1] 7\n",
		} {
			for _, changed := range []string{
				comment + in,
				in + comment,
				strings.ReplaceAll(in, each, each+comment),
				strings.ReplaceAll(in, each, each+strings.Repeat(comment, 9000)),
			} {
				if got := fold(t, changed, Options{}); got != plain {
					t.Errorf("%s with %q: got\n%swant\n%s", name, comment, got, plain)
				}
			}
		}
	}
	if texts < 10 {
		t.Errorf("%d texts", texts)
	}
}

// TestCorpusAndProse appends text without stacks to each text of the corpus. It is skipped with a
// note. The input is refused when it contains hardly anything else.
func TestCorpusAndProse(t *testing.T) {
	const prose = "# not this one\n* (see the notes) of 17:03:55: by name, and more\n"
	for name, want := range corpus {
		if want.advice != "" || !strings.HasSuffix(name, ".txt") ||
			strings.Contains(name, "utf16") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata/corpus", name))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := Read(never, strings.NewReader(string(raw)), "", Options{})
			if err != nil {
				t.Fatal(err)
			}
			few, err := Read(
				context.Background(), strings.NewReader(string(raw)+"\n"+prose), "", Options{},
			)
			if err == nil && few.Sum() != plain.Sum() {
				t.Errorf("sum %v, was %v, with a line of prose behind it", few.Sum(), plain.Sum())
			}
			long := string(raw) + "\n" + strings.Repeat(prose[strings.Index(prose, "*"):], 5000)
			many, err := Read(never, strings.NewReader(long), "", Options{})
			if err == nil && len(many.Notes) == 0 {
				t.Errorf("5,000 lines of prose are read as %v, without a note", many.Sum())
			}
		})
	}
}
