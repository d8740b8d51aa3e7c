package profile

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// Firefox's profiles are also written by samply and perf script report gecko. The processed form
// has a column per field, the raw form a schema and rows. Stacks are a tree of prefixes.
//
// Source: docs-developer/ of the Firefox Profiler, "processed-profile-format" and
// "gecko-profile-format".

type geckoFile struct {
	Threads   []geckoThread
	Processes []geckoFile
	Shared    *geckoThread // tables of all threads: texts since version 56, others since 60
	Profile   *geckoFile   // the profile, in a file of Firefox's developer tools
}

// geckoText is a geckoFile whose parts are not parsed.
type geckoText struct {
	Threads   []json.RawMessage `json:"threads"`
	Processes []json.RawMessage `json:"processes"`
	Shared    *geckoThread      `json:"shared"`
	Profile   json.RawMessage   `json:"profile"`
}

// parseGecko parses a profile that is nested depth times. Up to version 3 a thread can be a string:
// the profile of another process. The error is that of encoding/json, or a *ParseError.
func parseGecko(m *meter, raw []byte, depth int) (f geckoFile, err error) {
	if depth > maxProcesses {
		return f, jsonError(Gecko, "processes are more than %d deep", maxProcesses)
	}
	var in geckoText
	if err := m.unmarshal(raw, &in); err != nil {
		return f, err
	}
	f.Shared = in.Shared
	nested := func(raw []byte) error {
		m.add(2 * int(unsafe.Sizeof(geckoFile{})))
		process, err := parseGecko(m, raw, depth+1)
		f.Processes = append(f.Processes, process)
		return err
	}
	for _, raw := range in.Processes {
		if err := nested(raw); err != nil {
			return f, err
		}
	}
	if len(in.Profile) > 0 {
		profile, err := parseGecko(m, in.Profile, depth+1)
		if err != nil {
			return f, err
		}
		f.Profile = &profile
	}
	for _, thread := range in.Threads {
		if !bytes.HasPrefix(thread, []byte(`"`)) {
			m.add(2 * int(unsafe.Sizeof(geckoThread{})))
			var t geckoThread
			if err := m.unmarshal(thread, &t); err != nil {
				return f, err
			}
			f.Threads = append(f.Threads, t)
			continue
		}
		var text string
		if err := m.unmarshal(thread, &text); err != nil {
			return f, err
		}
		if err := nested([]byte(text)); err != nil {
			return f, err
		}
	}
	return f, nil
}

type geckoThread struct {
	Name        string          `json:"name"`
	ProcessName string          `json:"processName"`
	PID         json.RawMessage `json:"pid"`
	TID         json.RawMessage `json:"tid"`
	Samples     json.RawMessage `json:"samples"`
	Stacks      json.RawMessage `json:"stackTable"`
	Frames      json.RawMessage `json:"frameTable"`
	Functions   json.RawMessage `json:"funcTable"`
	StringArray []string        `json:"stringArray"`
	StringTable json.RawMessage `json:"stringTable"` // raw, and old versions
	Sources     json.RawMessage `json:"sources"`     // of all threads, since version 58
}

// A geckoTable is a table in either form.
type geckoTable struct {
	m       *meter
	columns map[string]json.RawMessage
	schema  map[string]int
	rows    [][]json.RawMessage
}

func newGeckoTable(m *meter, raw json.RawMessage) (t geckoTable) {
	t.m = m
	var rows struct {
		Schema map[string]int      `json:"schema"`
		Data   [][]json.RawMessage `json:"data"`
	}
	if len(raw) == 0 {
		return t
	}
	if m.unmarshal(raw, &rows) == nil && rows.Schema != nil {
		t.schema, t.rows = rows.Schema, rows.Data
		return t
	}
	_ = m.unmarshal(raw, &t.columns) // without columns there are no rows
	return t
}

// column returns the numbers of a column; null is NaN.
func (t *geckoTable) column(name string) []float64 {
	if t.schema != nil {
		at, ok := t.schema[name]
		if !ok {
			return nil
		}
		t.m.add(8 * len(t.rows))
		out := make([]float64, len(t.rows))
		for i, r := range t.rows {
			if out[i] = math.NaN(); at >= 0 && at < len(r) {
				out[i] = geckoNumber(r[at])
			}
		}
		return out
	}
	var list []json.RawMessage
	if t.m.unmarshal(t.columns[name], &list) != nil {
		return nil
	}
	t.m.add(8 * len(list))
	out := make([]float64, len(list))
	for i, v := range list {
		out[i] = geckoNumber(v)
	}
	return out
}

func geckoNumber(raw json.RawMessage) float64 {
	var v *float64
	if json.Unmarshal(raw, &v) != nil || v == nil {
		return math.NaN()
	}
	return *v
}

// index returns a number as an index below of; -1 when it is none.
func index(v float64, of int) int {
	if !(v >= 0) || v >= float64(of) || v != math.Trunc(v) {
		return -1
	}
	return int(v)
}

func readGecko(r io.Reader, o Options) (*Tree, error) {
	var raw json.RawMessage
	if err := decodeJSON(r, o.meter, string(Gecko), &raw); err != nil {
		return nil, err
	}
	f, err := parseGecko(o.meter, raw, 0)
	if err != nil {
		return nil, jsonFault(err, string(Gecko))
	}
	if f.Profile != nil && len(f.Threads) == 0 {
		f = *f.Profile
	}
	g := gecko{b: o.builder(), others: map[string]int{}, timer: o.timer(true)}
	g.several = g.count(&f, 0) > 1
	if err := g.file(&f, 0); err != nil {
		return nil, err
	}
	t := g.b.Tree()
	t.Times = g.timer.timeline(nil)
	t.Unit = "samples"
	if g.weights != "" && g.weights != "samples" {
		t.Unit = clean(shortened(strings.TrimPrefix(g.weights, "tracing-"), 40))
	}
	if len(g.others) > 0 {
		t.note(othersNote(g.weights, g.others))
	}
	if g.idle > 0 {
		t.note(
			plural(g.idle, "sample has no stack and is",
				"samples have no stacks and are") + " left out",
		)
	}
	return nonEmpty(t, Gecko)
}

// A gecko is the state of reading a Firefox profile.
type gecko struct {
	b       *Builder
	several bool   // there are several threads
	weights string // the type of the amounts
	others  map[string]int
	idle    int
	timer   *timer
	read    int // threads so far
}

// maxProcesses is how deep profiles of processes may be nested.
const maxProcesses = 100

func (g *gecko) count(f *geckoFile, depth int) int {
	n := len(f.Threads)
	for i := range f.Processes {
		if depth < maxProcesses {
			n += g.count(&f.Processes[i], depth+1)
		}
	}
	return n
}

func (g *gecko) file(f *geckoFile, depth int) error {
	for i := range f.Threads {
		if err := g.thread(&f.Threads[i], f.Shared, i); err != nil {
			return err
		}
	}
	for i := range f.Processes {
		if depth == maxProcesses {
			return jsonError(Gecko, "processes are more than %d deep", maxProcesses)
		}
		if err := g.file(&f.Processes[i], depth+1); err != nil {
			return err
		}
	}
	return nil
}

// names returns the function of each frame of a thread, and the line; NaN: unknown.
func (t *geckoThread) names(b *Builder, shared *geckoThread) (out []uint32, at []float64) {
	texts := t.StringArray
	if len(texts) == 0 {
		_ = b.meter.unmarshal(t.StringTable, &texts) // of old versions an object
	}
	if len(texts) == 0 && shared != nil {
		texts = shared.StringArray
	}
	frames := newGeckoTable(b.meter, t.Frames)
	text := func(v float64) string {
		if i := index(v, len(texts)); i >= 0 {
			return texts[i]
		}
		return "[unknown]"
	}
	at = frames.column("line")
	if locations := frames.column("location"); locations != nil {
		out = make([]uint32, len(locations))
		for i, l := range locations {
			out[i] = b.Named(jsonName(text(l)))
		}
		return out, at
	}
	functions := newGeckoTable(b.meter, t.Functions)
	names, files := functions.column("name"), functions.column("fileName")
	lines := functions.column("lineNumber")
	if shared != nil && files == nil {
		files = shared.files(b.meter, functions.column("source"))
	}
	of := frames.column("func")
	out = make([]uint32, len(of))
	for i, v := range of {
		name, file := "[unknown]", ""
		k := index(v, len(names))
		if k >= 0 {
			name = text(names[k])
			if k < len(files) && index(files[k], len(texts)) >= 0 {
				file = text(files[k])
			}
		}
		out[i] = b.Named(jsonName(name))
		if g := &b.tree.Functions[out[i]]; g.File == "" && file != "" {
			g.File = file
			if k < len(lines) && lines[k] > 0 && lines[k] < math.MaxInt32 {
				g.Line = int(lines[k])
			}
		}
	}
	return out, at
}

// files returns the names of files, indexes of texts, of indexes of sources; NaN for none.
func (t *geckoThread) files(m *meter, sources []float64) []float64 {
	table := newGeckoTable(m, t.Sources)
	names := table.column("filename")
	m.add(8 * len(sources))
	out := make([]float64, len(sources))
	for i, s := range sources {
		if out[i] = math.NaN(); index(s, len(names)) >= 0 {
			out[i] = names[int(s)]
		}
	}
	return out
}

// prefixes returns the caller of each stack; NaN for none. Since version 66 it is a distance.
func (t *geckoTable) prefixes() []float64 {
	prefixes := t.column("prefix")
	if prefixes != nil {
		return prefixes
	}
	prefixes = t.column("prefixOffset")
	for i, back := range prefixes {
		if prefixes[i] = float64(i) - back; !(back > 0) {
			prefixes[i] = math.NaN()
		}
	}
	return prefixes
}

func (g *gecko) thread(t, shared *geckoThread, n int) error {
	if shared != nil {
		if len(t.Stacks) == 0 {
			t.Stacks = shared.Stacks
		}
		if len(t.Frames) == 0 {
			t.Frames, t.Functions = shared.Frames, shared.Functions
		}
	}
	samples, stacks := newGeckoTable(g.b.meter, t.Samples), newGeckoTable(g.b.meter, t.Stacks)
	of, weights := samples.column("stack"), samples.column("weight")
	var kind string
	_ = g.b.meter.unmarshal(samples.columns["weightType"], &kind) // absent: samples
	if len(of) == 0 {
		return nil
	}
	if kind == "" {
		kind = "samples"
	}
	if g.weights == "" {
		g.weights = kind
	}
	if kind != g.weights {
		g.others[kind] += len(of)
		return nil
	}
	frames, prefixes := stacks.column("frame"), stacks.prefixes()
	names, lines := t.names(g.b, shared)
	times, thread := samples.times(), g.timer.thread(t.called(g.read), []byte(t.called(n)))
	g.read++
	var stack []uint32
	var at32 []int32
	for i, s := range of {
		at := index(s, len(frames))
		if at < 0 {
			if !math.IsNaN(s) {
				return jsonError(Gecko, "thread %d: sample %d is of stack %v, of %d", n, i, s,
					len(frames))
			}
			g.idle++
			continue
		}
		stack, at32 = stack[:0], at32[:0]
		for at >= 0 {
			f := index(frames[at], len(names))
			if f < 0 || len(stack) >= MaxDepth || at >= len(prefixes) {
				return jsonError(Gecko,
					"thread %d: stack %d is of frame %v, of %d, or deeper than 65,536 frames", n,
					at, frames[at], len(names))
			}
			stack, at32 = append(stack, names[f]), append(at32, lineIn(lines, f))
			at = index(prefixes[at], len(frames))
		}
		if g.several {
			stack = append(stack, g.b.Function(jsonName(t.Name), nil, Process))
			at32 = append(at32, 0)
		}
		g.b.meter.visit(len(stack))
		slices.Reverse(stack)
		slices.Reverse(at32)
		weight := 1.0
		if i < len(weights) && !math.IsNaN(weights[i]) {
			weight = weights[i]
		}
		node := g.b.Lined(stack, at32, weight)
		when := math.NaN()
		if i < len(times) {
			when = times[i] * 1e6
		}
		g.timer.add(Moment{Thread: thread, Node: node, Kept: -1, At: when, Amount: weight})
	}
	return nil
}

// lineIn returns a line of a column; 0: unknown.
func lineIn(lines []float64, i int) int32 {
	if i < len(lines) && lines[i] > 0 && lines[i] < math.MaxInt32 {
		return int32(lines[i])
	}
	return 0
}

// times returns the time of each sample in ms. The processed form also has the times between.
func (t *geckoTable) times() []float64 {
	if times := t.column("time"); times != nil {
		return times
	}
	times := t.column("timeDeltas")
	at := 0.0
	for i, d := range times {
		at += d
		times[i] = at
	}
	return times
}

// called returns the name of a thread with its process; n is its number in the file.
func (t *geckoThread) called(n int) string {
	name := t.Name
	if name == "" {
		name = "thread " + strconv.Itoa(n+1)
	}
	if id := strings.Trim(string(t.PID), `"`); id != "" && id != "null" {
		name += " (process " + id + ")"
	}
	if id := strings.Trim(string(t.TID), `"`); id != "" && id != "null" {
		name += " " + id
	}
	return name
}
