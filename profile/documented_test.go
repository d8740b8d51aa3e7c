package profile

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// documented is the word of docs/TOOLS.md for each format, and a file of it.
//
// table: the rows of the section flame
var documented = map[Format]struct{ word, example string }{
	BPFTrace:     {"bpftrace's maps", "bpftrace.txt"},
	BPFTraceJSON: {"`-f json`", ""},
	D3:           {"d3-flame-graph", ""},
	DTrace:       {"DTrace's `stack()`", "dtrace.txt"},
	Debugger:     {"eu-stack", ""},
	Folded:       {"folded", "folded.txt"},
	FoldedTwice:  {"of two amounts", ""},
	GHC:          {"GHC's `.prof`", ""},
	GHCJSON:      {"`-pj`", "haskell.json"},
	Gecko:        {"Firefox's profiles", "gecko-3.json"},
	GoRaw:        {"pprof -raw", ""},
	Goroutines:   {"goroutines", "goroutines.txt"},
	Instruments:  {"Instruments", "instruments.txt"},
	JFR:          {"Java's Flight Recorder", ""},
	JStack:       {"jstack", ""},
	LegacyPProf:  {"gperftools", "legacy-heap.gperf"},
	OTLP:         {"OTLP", ""},
	PMCStat:      {"pmcstat", "pmcstat.txt"},
	PProf:        {"pprof", ""},
	Perf:         {"perf script", "perf-no-dso.txt"},
	PerfData:     {"perf.data", "perf.data"},
	Pyroscope:    {"Pyroscope", ""},
	Safari:       {"Safari", "safari.json"},
	Sample:       {"sample", ""},
	Speedscope:   {"speedscope", "speedscope-sampled.json"},
	StackProf:    {"stackprof", "stackprof.json"},
	TraceEvents:  {"trace events", "chrome-trace.json"},
	V8:           {"`.cpuprofile`", "old.cpuprofile"},
	V8Heap:       {"V8's heap profiler", "v8.heapprofile"},
	VTune:        {"VTune", ""},
	VisualStudio: {"Visual Studio", ""},
	XCTrace:      {"xctrace export", ""},
}

// Each format that is read has a row in the table of docs/TOOLS.md.
func TestFormatsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/TOOLS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## flame")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 5 &&
			strings.HasPrefix(strings.TrimSpace(cells[2]), "yes") {
			rows = append(rows, cells[1]+cells[2])
		}
	}
	all := strings.Join(rows, "\n")
	for _, f := range declaredFormats(t) {
		d, ok := documented[f]
		if !ok || !strings.Contains(all, d.word) {
			t.Errorf("%s: no row of docs/TOOLS.md has %q", f, d.word)
		}
		if d.example == "" {
			continue
		}
		in, err := os.ReadFile(filepath.Join("testdata/corpus", d.example))
		if err != nil {
			t.Fatal(err)
		}
		if got := DetectFormat(in, true); got != f {
			t.Errorf("%s: %s is %q", f, d.example, got)
		}
	}
}

// declaredFormats returns the constants of type Format.
func declaredFormats(t *testing.T) (all []Format) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) == 0 {
				return true
			}
			if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "Format" {
				if lit, ok := v.Values[0].(*ast.BasicLit); ok {
					s, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, Format(s))
				}
			}
			return true
		})
	}
	if len(all) < 30 {
		t.Fatalf("%d formats", len(all))
	}
	return all
}
