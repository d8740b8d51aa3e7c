package profile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"culprit/measure"
)

// Profiles of OpenTelemetry are ProfilesData or ExportProfilesServiceRequest messages, as protocol
// buffers or JSON. This file reads the messages of opentelemetry-proto 1.9 to 1.11, package
// v1development, which has no version in it: see otlpSample.
//
// Source: opentelemetry/proto/profiles/v1development/profiles.proto

// OTLP is a profile of OpenTelemetry.
const OTLP Format = "OpenTelemetry's profile"

type otlpFile struct {
	Resources []otlpResource `json:"resourceProfiles"`
	Tables    otlpTables     `json:"dictionary"`
}

type otlpTables struct {
	Mappings   []otlpMapping   `json:"mappingTable"`
	Locations  []otlpLocation  `json:"locationTable"`
	Functions  []otlpFunction  `json:"functionTable"`
	Strings    []string        `json:"stringTable"`
	Attributes []otlpAttribute `json:"attributeTable"`
	Stacks     []otlpStack     `json:"stackTable"`
}

type otlpResource struct {
	Scopes []struct {
		Profiles []otlpProfile `json:"profiles"`
	} `json:"scopeProfiles"`
}

type otlpProfile struct {
	Type    otlpType     `json:"sampleType"`
	Samples []otlpSample `json:"samples"`
	Time    jsonNumber   `json:"timeUnixNano"` // since 1970
	Length  jsonNumber   `json:"durationNano"`
	Period  jsonNumber   `json:"period"`
	PerType otlpType     `json:"periodType"`
}

type otlpType struct {
	Type int `json:"typeStrindex"`
	Unit int `json:"unitStrindex"`
}

// An otlpSample is a stack with values. Its fields 2, 3 and 4 are attributes, link and values since
// 1.10, and values, attributes and link in 1.9.
type otlpSample struct {
	Stack      int          `json:"stackIndex"`
	Attributes []int        `json:"attributeIndices"`
	Values     []jsonNumber `json:"values"`
	Times      otlpCount    `json:"timestampsUnixNano"`
}

// An otlpAddress is a number of 64 bits, in JSON a string.
type otlpAddress uint64

func (a *otlpAddress) UnmarshalJSON(raw []byte) error {
	v, err := strconv.ParseUint(string(bytes.Trim(raw, `"`)), 10, 64)
	*a = otlpAddress(v)
	return err
}

// An otlpCount is the length of a list.
type otlpCount int

func (n *otlpCount) UnmarshalJSON(raw []byte) error {
	if len(raw) > 2 {
		*n = otlpCount(1 + bytes.Count(raw, []byte(",")))
	}
	return nil
}

type otlpMapping struct {
	File int `json:"filenameStrindex"`
}

type otlpStack struct {
	Locations []int `json:"locationIndices"` // innermost first
}

type otlpLocation struct {
	Mapping    int         `json:"mappingIndex"`
	Address    otlpAddress `json:"address"`
	Lines      []otlpLine  `json:"lines"` // innermost first
	Attributes []int       `json:"attributeIndices"`
}

type otlpLine struct {
	Function int        `json:"functionIndex"`
	Line     jsonNumber `json:"line"`
}

type otlpFunction struct {
	Name   int        `json:"nameStrindex"`
	System int        `json:"systemNameStrindex"`
	File   int        `json:"filenameStrindex"`
	Start  jsonNumber `json:"startLine"`
}

type otlpAttribute struct {
	Key   int       `json:"keyStrindex"`
	Value otlpValue `json:"value"`
	Unit  int       `json:"unitStrindex"`
}

// An otlpValue is a value as text.
type otlpValue string

func (v *otlpValue) UnmarshalJSON(raw []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	for _, one := range all {
		var s string
		if json.Unmarshal(one, &s) != nil {
			s = string(one)
		}
		*v = otlpValue(s)
	}
	return nil
}

// readOTLPJSON reads a profile of OpenTelemetry in JSON.
func readOTLPJSON(r io.Reader, o Options) (*Tree, error) {
	var f otlpFile
	if err := decodeJSON(r, o.meter, string(OTLP), &f); err != nil {
		return nil, err
	}
	return f.tree(o)
}

// otlpReader converts the profiles of one type to a tree.
type otlpReader struct {
	f      *otlpFile
	o      Options
	b      *Builder
	frames []pprofFrames // by location; without functions: not yet known
	labels map[string]bool
	none   int // samples without a stack
}

// tree returns the tree of the requested type of values, or of that of the first profile with
// samples.
func (f *otlpFile) tree(o Options) (*Tree, error) {
	if len(f.Tables.Stacks) == 0 && len(f.Tables.Locations) > 0 {
		return nil, &ParseError{What: "a profile of OpenTelemetry of before opentelemetry-proto " +
			"1.8: those of 1.9 to 1.11 are read. A newer collector writes one, or pprof"}
	}
	o.meter.add(48 * len(f.Tables.Locations))
	r := &otlpReader{f: f, o: o, b: o.builder(), labels: map[string]bool{},
		frames: make([]pprofFrames, len(f.Tables.Locations))}
	profiles := f.profiles()
	kinds, samples := map[string]int{}, 0
	first := (*otlpProfile)(nil)
	for _, p := range profiles {
		kind := r.text(p.Type.Type)
		kinds[kind] += len(p.Samples)
		samples += len(p.Samples)
		if first == nil && len(p.Samples) > 0 && (o.Value == "" || o.Value == kind) {
			first = p
		}
	}
	if first == nil {
		if samples == 0 {
			return nil, &ParseError{What: "OpenTelemetry: the profile has no samples"}
		}
		return nil, &ParseError{What: fmt.Sprintf("OpenTelemetry: there is no value %q; %s",
			o.Value, othersNote("", kinds))}
	}
	chosen, unit := r.text(first.Type.Type), r.text(first.Type.Unit)
	taken := 0
	for _, p := range profiles {
		if p.Type != first.Type &&
			(r.text(p.Type.Type) != chosen || r.text(p.Type.Unit) != unit) {
			continue
		}
		for i := range p.Samples {
			n, err := r.sample(&p.Samples[i])
			if err != nil {
				return nil, err
			}
			taken += n
		}
	}
	if o.Label != "" && !r.labels[o.Label] {
		return nil, &ParseError{What: fmt.Sprintf("OpenTelemetry: no sample has the attribute %q; "+
			"there are %s", o.Label, cmp.Or(listed(slices.Sorted(maps.Keys(r.labels))), "none"))}
	}
	t := r.b.Tree()
	t.Samples = float64(taken)
	delete(kinds, chosen)
	r.describe(t, first, chosen, unit, kinds)
	return nonEmpty(t, OTLP)
}

// describe sets the metadata of the tree, and the notes.
func (r *otlpReader) describe(
	t *Tree, p *otlpProfile, kind, unit string, others map[string]int,
) {
	t.Unit = map[string]string{"nanoseconds": "ns", "count": kind}[unit]
	t.Unit = clean(shortened(cmp.Or(t.Unit, unit, kind, "samples"), 40))
	if unit == "nanoseconds" && kind == "cpu" {
		t.Seconds = t.Sum() / 1e9
	}
	t.Taken = Taken{At: measure.Time(p.Time), Over: measure.Span(p.Length)}
	if r.text(p.PerType.Type) == "cpu" && r.text(p.PerType.Unit) == "nanoseconds" && p.Period > 1 {
		t.Taken.Each = measure.Span(p.Period)
	}
	if len(others) > 0 {
		t.note("values of " + clean(shortened(kind, 60)) + " alone; " + othersNote("", others) +
			": choose one with --value")
	}
	if len(r.labels) > 0 && r.o.Label == "" {
		t.note("samples have the attributes " + listed(slices.Sorted(maps.Keys(r.labels))) +
			": --label NAME puts the values of one below the root")
	}
	if r.none > 0 {
		t.note(plural(r.none, "sample has", "samples have") + " no stack")
	}
}

// profiles returns all profiles of a file.
func (f *otlpFile) profiles() (all []*otlpProfile) {
	for i := range f.Resources {
		for k := range f.Resources[i].Scopes {
			for n := range f.Resources[i].Scopes[k].Profiles {
				all = append(all, &f.Resources[i].Scopes[k].Profiles[n])
			}
		}
	}
	return all
}

// text returns a text by its index.
func (r *otlpReader) text(i int) string {
	if i < 0 || i >= len(r.f.Tables.Strings) {
		return ""
	}
	return r.f.Tables.Strings[i]
}

// sample adds a sample. It returns how many observations it is.
func (r *otlpReader) sample(s *otlpSample) (int, error) {
	amount, n := 0.0, len(s.Values)
	for _, v := range s.Values {
		if v < 0 {
			return 0, jsonError(OTLP, "a sample has the negative amount %v", float64(v))
		}
		amount += float64(v)
	}
	if n == 0 { // each time is one
		n = int(s.Times)
		amount = float64(n)
	}
	var stack []uint32
	if r.o.Label != "" {
		stack = append(stack, r.label(s))
	} else {
		for _, a := range s.Attributes {
			if a > 0 && a < len(r.f.Tables.Attributes) && len(r.labels) < 100 {
				r.labels[r.text(r.f.Tables.Attributes[a].Key)] = true
			}
		}
	}
	if s.Stack < 0 || s.Stack >= len(r.f.Tables.Stacks) {
		return 0, jsonError(OTLP, "a sample is of stack %d, of %d", s.Stack,
			len(r.f.Tables.Stacks))
	}
	locations := r.f.Tables.Stacks[s.Stack].Locations
	if len(locations) == 0 {
		r.none++
		stack = append(stack, r.b.Function([]byte("[no stack]"), nil, Code))
	}
	lines := make([]int32, len(stack), len(stack)+len(locations))
	for _, l := range slices.Backward(locations) {
		if l < 0 || l >= len(r.frames) {
			return 0, jsonError(OTLP, "stack %d is of location %d, of %d", s.Stack, l,
				len(r.frames))
		}
		if len(stack) > MaxDepth { // Stack cuts it and notes that
			break
		}
		of := r.location(l)
		stack, lines = append(stack, of.functions...), append(lines, of.lines...)
	}
	r.b.Lined(stack, lines, amount)
	return n, nil
}

// label returns the frame of a sample's value of the requested attribute.
func (r *otlpReader) label(s *otlpSample) uint32 {
	text := "[" + r.o.Label + " is not set]"
	for _, a := range s.Attributes {
		if a <= 0 || a >= len(r.f.Tables.Attributes) {
			continue
		}
		attribute := &r.f.Tables.Attributes[a]
		key := r.text(attribute.Key)
		if len(r.labels) < 100 {
			r.labels[key] = true
		}
		if key == r.o.Label {
			text = string(attribute.Value)
			if unit := r.text(attribute.Unit); unit != "" {
				text += " " + unit
			}
			r.labels[key] = true
		}
	}
	return r.b.Function(jsonName(shortened(text, 1000)), nil, Process)
}

// location returns the frames of a location.
func (r *otlpReader) location(i int) pprofFrames {
	if r.frames[i].functions != nil {
		return r.frames[i]
	}
	l := &r.f.Tables.Locations[i]
	file := ""
	if l.Mapping > 0 && l.Mapping < len(r.f.Tables.Mappings) {
		file = r.text(r.f.Tables.Mappings[l.Mapping].File)
	}
	kind, module := kindByFile([]byte(file)), baseName([]byte(file))
	for _, a := range l.Attributes {
		if a > 0 && a < len(r.f.Tables.Attributes) &&
			r.text(r.f.Tables.Attributes[a].Key) == "profile.frame.type" &&
			r.f.Tables.Attributes[a].Value == "kernel" {
			kind = Kernel
		}
	}
	address := "[unknown]"
	if l.Address > 0 {
		address = "0x" + strconv.FormatUint(uint64(l.Address), 16)
	}
	var out pprofFrames
	for n, line := range slices.Backward(l.Lines) {
		f := otlpFunction{}
		if line.Function >= 0 && line.Function < len(r.f.Tables.Functions) {
			f = r.f.Tables.Functions[line.Function]
		}
		name, k := cmp.Or(r.text(f.Name), r.text(f.System), address), kind
		if n < len(l.Lines)-1 && kind == Code {
			k = Inlined
		}
		id := r.b.Function(jsonName(name), module, k)
		if g := &r.b.tree.Functions[id]; g.File == "" {
			g.File = r.text(f.File)
			g.Line = int(min(max(0, cmp.Or(f.Start, line.Line)), math.MaxInt32))
		}
		out.functions = append(out.functions, id)
		out.lines = append(out.lines, int32(min(max(0, line.Line), math.MaxInt32)))
	}
	if len(out.functions) == 0 {
		out.functions, out.lines = []uint32{r.b.Function([]byte(address), module, kind)}, []int32{0}
	}
	r.o.meter.add(jsonEntry + 16*len(out.functions))
	r.frames[i] = out
	return out
}
