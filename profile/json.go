package profile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// This file detects formats of JSON and reads the small ones. speedscope, V8, trace events and
// Firefox have files of their own.

// The other formats of JSON.
const (
	TraceEvents Format = "Chrome's trace events"
	Gecko       Format = "Firefox's profile"
	D3          Format = "d3's flame graph"
	Pyroscope   Format = "Pyroscope's flame graph"
	StackProf   Format = "stackprof"
	V8Heap      Format = "V8's heap profile"
)

// jsonMagics are keys of formats of JSON that are not read.
//
// table: keys of the tools' own formats
var jsonMagics = []struct{ key, what string }{
	{"ticks",
		"a preprocessed log of V8's profiler: node --cpu-prof writes a .cpuprofile, which is read"},
	{"root_frame",
		"a session of pyinstrument: pyinstrument -r speedscope writes a profile that is read"},
	{"dhatFileVersion", "a profile of DHAT: it counts blocks of memory; dh_view.html shows it"},
	{
		"stringTable",
		"a profile of an unknown kind: " +
			"speedscope, Firefox, Chrome, V8, stackprof, Pyroscope and d3 are read",
	},
}

// jsonFormat returns the format of a JSON value by its keys; "" when it is not a known one.
func jsonFormat(text []byte) Format {
	has := func(names ...string) bool {
		for _, name := range names {
			if !bytes.Contains(text, []byte(`"`+name+`"`)) {
				return false
			}
		}
		return true
	}
	switch {
	case text[0] == '[' && has("ph"), has("traceEvents"):
		return TraceEvents
	case has("resourceProfiles"):
		return OTLP
	case has("cost_centres"):
		return GHCJSON
	case has("recording") && (has("sampleStackTraces") || has("instrumentTypes")):
		return Safari
	case isBPFTraceJSON(text):
		return BPFTraceJSON
	case has("label", "duration", "markers"): // written by Firefox's developer tools
		return Gecko
	case has("flamebearer"):
		return Pyroscope
	case has("gc_samples"), has("frames", "raw"), has("frames", "mode"):
		return StackProf
	case has("callFrame", "selfSize"):
		return V8Heap
	case has("callFrame"), has("hitCount", "functionName"):
		return V8
	case has("$schema"), has("shared", "profiles"):
		return Speedscope
	case has("meta", "threads"), has("meta", "libs"), has("meta", "stackTable"),
		has("meta", "preprocessedProfileVersion"):
		return Gecko
	case has("children") && (has("value") || has("v")):
		return D3
	case has("shared"), has("profiles"):
		return Speedscope
	}
	return ""
}

// isBPFTraceJSON reports whether text begins like bpftrace -f json: {"type": "map", "data": ...
func isBPFTraceJSON(text []byte) bool {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	key, rest, _ := bytes.Cut(first, []byte(":"))
	return string(bytes.TrimSpace(bytes.TrimPrefix(key, []byte("{")))) == `"type"` &&
		bytes.Contains(rest, []byte(`"data"`))
}

// unknownJSON returns the error of a JSON value that is not a known profile.
func unknownJSON(text []byte) error {
	for _, m := range jsonMagics {
		if bytes.Contains(text, []byte(`"`+m.key+`"`)) {
			return &ParseError{Line: 1, What: "this is " + m.what}
		}
	}
	return &ParseError{Line: 1,
		What: "JSON of an unknown kind: profiles of speedscope, Firefox, Chrome " +
			"(trace events and .cpuprofile), stackprof, Pyroscope, d3 and bpftrace are read"}
}

// readJSON reads one of the JSON formats of this file, trace events or a Firefox profile.
func readJSON(f Format, r io.Reader, o Options) (*Tree, error) {
	switch f {
	case TraceEvents:
		return readTraceEvents(r, o)
	case Gecko:
		return readGecko(r, o)
	case OTLP:
		return readOTLPJSON(r, o)
	case GHCJSON:
		return readGHCJSON(r, o)
	case Safari:
		return readSafari(r, o)
	case D3:
		return readD3(r, o)
	case Pyroscope:
		return readPyroscope(r, o)
	case StackProf:
		return readStackProf(r, o)
	case V8Heap:
		return readV8Heap(r, o)
	}
	return nil, &ParseError{What: "no reader of " + string(f)}
}

// jsonError returns the error of a profile whose parts are inconsistent.
func jsonError(f Format, format string, args ...any) error {
	return &ParseError{What: string(f) + ": " + fmt.Sprintf(format, args...)}
}

// kindError describes a value of the wrong type without the names of Go's types.
func kindError(e *json.UnmarshalTypeError) string {
	kind := map[reflect.Kind]string{
		reflect.String: "a string", reflect.Bool: "true or false", reflect.Slice: "a list",
		reflect.Struct: "an object", reflect.Map: "an object",
	}[e.Type.Kind()]
	where := "it"
	if e.Field != "" {
		where = strconv.Quote(shortened(e.Field, 60))
	}
	return where + " is a JSON " + e.Value + ", and " + cmp.Or(kind, "a number") + " is expected"
}

// A jsonNumber is a number or a string that contains one: writers of trace events use both.
type jsonNumber float64

func (n *jsonNumber) UnmarshalJSON(raw []byte) error {
	text := bytes.Trim(raw, `"`)
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return &json.UnmarshalTypeError{Value: shortened(string(raw), 40),
			Type: reflect.TypeFor[float64]()}
	}
	*n = jsonNumber(v)
	return nil
}

// nonEmpty returns the tree, or an error when it is empty.
func nonEmpty(t *Tree, f Format) (*Tree, error) {
	if t.Sum() == 0 {
		return nil, jsonError(f, "no samples in it")
	}
	return t, nil
}

// jsonName returns a name in the form of a tree.
func jsonName(name string) []byte {
	if name == "" {
		name = "(anonymous)"
	}
	return []byte(strings.ReplaceAll(name, ";", ":"))
}

// A d3Node is a call in d3-flame-graph's format. Its value includes those of its children.
type d3Node struct {
	Name     string   `json:"name"`
	Short    string   `json:"n"`
	Value    float64  `json:"value"`
	ShortV   float64  `json:"v"`
	Children []d3Node `json:"children"`
	ShortC   []d3Node `json:"c"`
}

func readD3(r io.Reader, o Options) (*Tree, error) {
	var root d3Node
	if err := decodeJSON(r, o.meter, string(D3), &root); err != nil {
		return nil, err
	}
	b := o.builder()
	type step struct {
		n    *d3Node
		call Call
	}
	negative, first := 0, Call{}
	switch name := root.Name + root.Short; name {
	case "", "root", "all", "total":
	default:
		first = b.Child(first, b.Named(jsonName(name)))
	}
	for todo := []step{{&root, first}}; len(todo) > 0; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		own := s.n.Value + s.n.ShortV
		for _, list := range [][]d3Node{s.n.Children, s.n.ShortC} {
			for i := range list {
				c := &list[i]
				own -= c.Value + c.ShortV
				todo = append(todo, step{c, b.Child(s.call, b.Named(jsonName(c.Name+c.Short)))})
			}
		}
		if own < -1e-9*math.Abs(s.n.Value+s.n.ShortV) {
			negative++
		} else if own > 0 {
			b.Add(s.call.Node, own)
		}
	}
	if negative == 1 && root.Value+root.ShortV == 0 {
		negative = 0 // the root has no value of its own
	}
	t := b.Tree()
	if negative > 0 {
		t.note(
			plural(negative, "call has", "calls have") + " less than what it calls: its own is 0",
		)
	}
	return nonEmpty(t, D3)
}

// readPyroscope reads flamebearer JSON. A level is a list of bars of four numbers: the distance
// from the end of the bar before, the total, the own amount, the index of the name. A comparison
// has seven.
func readPyroscope(r io.Reader, o Options) (*Tree, error) {
	var p struct {
		Bearer struct {
			Names  []string    `json:"names"`
			Levels [][]float64 `json:"levels"`
		} `json:"flamebearer"`
		Metadata struct {
			Format string  `json:"format"`
			Units  string  `json:"units"`
			Rate   float64 `json:"sampleRate"`
		} `json:"metadata"`
	}
	if err := decodeJSON(r, o.meter, string(Pyroscope), &p); err != nil {
		return nil, err
	}
	if p.Metadata.Format == "double" {
		return nil, jsonError(Pyroscope, "a comparison of two profiles: export one of them")
	}
	type bar struct {
		from, to float64
		call     Call
	}
	b := o.builder()
	above := []bar{{0, math.Inf(1), Call{}}}
	for l, level := range p.Bearer.Levels {
		if len(level)%4 != 0 {
			return nil, jsonError(Pyroscope, "level %d has %d numbers, no multiple of 4", l,
				len(level))
		}
		var bars []bar
		at, up := 0.0, 0
		for i := 0; i < len(level); i += 4 {
			from := at + level[i]
			at = from + level[i+1]
			name := level[i+3]
			if !(level[i] >= 0) || !(level[i+1] >= 0) || !(name >= 0) || name != math.Trunc(name) ||
				name >= float64(len(p.Bearer.Names)) {
				return nil, jsonError(Pyroscope, "level %d: bar %d is %v", l, i/4, level[i:i+4])
			}
			for up < len(above) && above[up].to <= from && level[i+1] > 0 {
				up++
			}
			if up == len(above) || above[up].from > from {
				return nil, jsonError(Pyroscope, "level %d: bar %d is below none", l, i/4)
			}
			call := above[up].call
			if l > 0 { // the first bar is the root
				if l > MaxDepth {
					return nil, jsonError(Pyroscope, "deeper than 65,536 frames")
				}
				call = b.Child(call, b.Named(jsonName(p.Bearer.Names[int(name)])))
			}
			b.Add(call.Node, max(0, level[i+2]))
			bars = append(bars, bar{from, at, call})
		}
		above = bars
	}
	t := b.Tree()
	if p.Metadata.Units != "" {
		t.Unit = clean(shortened(p.Metadata.Units, 40))
	}
	return nonEmpty(t, Pyroscope)
}

// readStackProf reads stackprof's JSON. raw is a list of stacks: the depth, the frames, outermost
// first, and the count. Without raw, only the frames' own samples are known.
func readStackProf(r io.Reader, o Options) (*Tree, error) {
	var p struct {
		Mode   string `json:"mode"`
		Frames map[string]struct {
			Name    string  `json:"name"`
			File    string  `json:"file"`
			Line    int     `json:"line"`
			Samples float64 `json:"samples"`
		} `json:"frames"`
		Raw []json.Number `json:"raw"`
	}
	if err := decodeJSON(r, o.meter, string(StackProf), &p); err != nil {
		return nil, err
	}
	b := o.builder()
	function := func(id string) uint32 {
		f := p.Frames[id]
		if f.Name == "" {
			f.Name = "[frame " + id + "]"
		}
		n := b.Named(jsonName(f.Name))
		if g := &b.tree.Functions[n]; g.File == "" {
			g.File, g.Line = f.File, min(max(0, f.Line), math.MaxInt32)
		}
		return n
	}
	var stack []uint32
	for i := 0; i < len(p.Raw); {
		depth, err := p.Raw[i].Int64()
		if err != nil || depth < 0 || depth > MaxDepth || i+int(depth)+1 >= len(p.Raw) {
			return nil, jsonError(StackProf, "raw: at %d a stack of %s frames in %d numbers", i,
				shortened(p.Raw[i].String(), 20), len(p.Raw))
		}
		stack = stack[:0]
		for _, id := range p.Raw[i+1 : i+1+int(depth)] {
			stack = append(stack, function(id.String()))
		}
		i += 1 + int(depth)
		count, err := p.Raw[i].Float64()
		if err != nil || count < 0 {
			return nil, jsonError(StackProf, "raw: at %d the count %s", i,
				shortened(p.Raw[i].String(), 20))
		}
		b.Stack(stack, count)
		i++
	}
	if len(p.Raw) == 0 {
		for id, f := range p.Frames {
			b.Stack([]uint32{function(id)}, f.Samples)
		}
		b.tree.note(
			"no stacks: stackprof recorded without raw: true; " +
				"functions have their own samples only",
		)
	}
	return nonEmpty(b.Tree(), StackProf)
}

// A heapNode is a call in V8's heap profile, with the bytes that it holds itself.
type heapNode struct {
	Call     v8Call     `json:"callFrame"`
	Self     float64    `json:"selfSize"`
	Children []heapNode `json:"children"`
}

func readV8Heap(r io.Reader, o Options) (*Tree, error) {
	var p struct {
		Head heapNode `json:"head"`
	}
	if err := decodeJSON(r, o.meter, string(V8Heap), &p); err != nil {
		return nil, err
	}
	b := o.builder()
	type step struct {
		n    *heapNode
		call Call
	}
	for todo := []step{{&p.Head, Call{}}}; len(todo) > 0; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s.n.Self > 0 && !math.IsInf(s.n.Self, 1) {
			b.Add(s.call.Node, s.n.Self)
		}
		for i := range s.n.Children {
			c := &s.n.Children[i]
			todo = append(todo, step{c, b.Child(s.call, c.Call.function(b))})
		}
	}
	t := b.Tree()
	t.Unit = "bytes"
	return nonEmpty(t, V8Heap)
}
