package profile

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"

	"github.com/google/pprof/profile"
)

// maxProfile is the highest size of a profile in pprof's or a JSON format, in bytes: it is read
// whole.
const maxProfile = 2 << 30

// pprofReader converts a pprof profile to a tree.
type pprofReader struct {
	p      *profile.Profile
	o      Options
	b      *Builder
	frames map[*profile.Location]pprofFrames
	label  map[string]uint32 // the frame of each value of Options.Label
}

// pprofFrames are the functions of a location, outermost first, and their lines.
type pprofFrames struct {
	functions []uint32
	lines     []int32
}

func readPProf(r io.Reader, o Options) (*Tree, error) {
	in, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if int64(len(in)) > maxProfile {
		return nil, &ParseError{Byte: maxProfile, What: "a profile of more than 2 GB"}
	}
	o.meter.add(len(in))
	if looksOTLP(in) {
		return readOTLP(in, o)
	}
	chargePProf(o.meter, in)
	p, err := profile.ParseUncompressed(in)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, &ParseError{Byte: damaged(in), What: "pprof: " + err.Error()}
	}
	return treeOfPProf(p, o)
}

// treeOfPProf returns the tree of one of the values of a profile.
func treeOfPProf(p *profile.Profile, o Options) (*Tree, error) {
	reasons := namePProf(p, o)
	if err := p.RemoveUninteresting(); err != nil { // drop_frames
		return nil, &ParseError{
			What: "pprof: its pattern of frames to be dropped can't be read: " + err.Error(),
		}
	}
	value, err := chosenValue(p, o.Value)
	if err != nil {
		return nil, err
	}
	if err := checkAmounts(p, value); err != nil {
		return nil, err
	}
	if o.Label != "" && !slices.Contains(labelsOf(p), o.Label) {
		return nil, &ParseError{What: fmt.Sprintf("pprof: no sample has the label %q; there are %s",
			o.Label, cmp.Or(listed(labelsOf(p)), "none"))}
	}
	r := &pprofReader{p: p, o: o, b: o.builder(), frames: map[*profile.Location]pprofFrames{},
		label: map[string]uint32{}}
	counts := slices.IndexFunc(p.SampleType,
		func(t *profile.ValueType) bool { return t.Type == "samples" && t.Unit == "count" })
	taken := 0.0
	var stack []uint32
	var lines []int32
	for _, s := range p.Sample {
		if counts >= 0 {
			taken += float64(s.Value[counts])
		}
		stack, lines = stack[:0], lines[:0]
		if o.Label != "" {
			stack, lines = append(stack, r.labelled(s)), append(lines, 0)
		}
		for _, l := range slices.Backward(s.Location) {
			if len(stack) > MaxDepth { // Stack cuts it and notes that
				break
			}
			of := r.stack(l)
			stack, lines = append(stack, of.functions...), append(lines, of.lines...)
		}
		r.b.Lined(stack, lines, float64(s.Value[value]))
	}
	t := r.b.Tree()
	t.Samples = taken
	describePProf(t, p, value, o)
	for _, reason := range reasons[:min(len(reasons), 5)] {
		t.note(reason)
	}
	return t, nil
}

// describePProf sets the metadata of a profile.
func describePProf(t *Tree, p *profile.Profile, value int, o Options) {
	kind, unit := p.SampleType[value].Type, p.SampleType[value].Unit
	t.Unit = map[string]string{"nanoseconds": "ns", "count": kind}[unit]
	t.Unit = cmp.Or(t.Unit, unit, kind, "samples")
	if unit == "nanoseconds" && kind == "cpu" {
		t.Seconds = t.Sum() / 1e9
	}
	t.Taken = Taken{At: measure.Time(p.TimeNanos), Over: measure.Span(p.DurationNanos)}
	if period := p.PeriodType; period != nil && period.Type == "cpu" &&
		period.Unit == "nanoseconds" &&
		p.Period > 1 {
		t.Taken.Each = measure.Span(p.Period)
	}
	if len(p.SampleType) > 1 {
		t.note(
			fmt.Sprintf("the values are %s; this is %s", listed(valueNames(p)),
				clean(shortened(kind, 60))),
		)
	}
	if all := labelsOf(p); len(all) > 0 && o.Label == "" {
		t.note("samples have the labels " + listed(all) +
			": --label NAME puts the values of one below the root")
	}
	for _, c := range p.Comments[:min(len(p.Comments), 20)] {
		t.note(clean(shortened(c, 300)))
	}
}

// valueNames returns the names of the values of each sample.
func valueNames(p *profile.Profile) (names []string) {
	for _, t := range p.SampleType {
		names = append(names, t.Type)
	}
	return names
}

// labelsOf returns the names of the samples' labels, sorted.
func labelsOf(p *profile.Profile) []string {
	seen := map[string]bool{}
	for _, s := range p.Sample {
		for name := range s.Label {
			seen[name] = true
		}
		for name := range s.NumLabel {
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// listed joins at most ten names for a message.
func listed(names []string) string {
	var out []string
	for _, n := range names[:min(len(names), 10)] {
		out = append(out, clean(shortened(n, 60)))
	}
	if len(names) > 10 {
		out = append(out, "...")
	}
	return strings.Join(out, ", ")
}

// chosenValue returns the index of a value: the requested one, the profile's default, or the last.
func chosenValue(p *profile.Profile, asked string) (int, error) {
	if len(p.SampleType) == 0 {
		return 0, &ParseError{What: "pprof: the profile does not say what its values are"}
	}
	for i, t := range p.SampleType {
		if want := cmp.Or(asked, p.DefaultSampleType); want != "" && t.Type == want {
			return i, nil
		}
	}
	if asked != "" {
		return 0, &ParseError{
			What: fmt.Sprintf("pprof: there is no value %q; there are %s", asked,
				listed(valueNames(p))),
		}
	}
	return len(p.SampleType) - 1, nil
}

// checkAmounts returns an error for a profile without samples or with negative amounts, which no
// picture can show.
func checkAmounts(p *profile.Profile, value int) error {
	negative, sums := 0, make([]float64, len(p.SampleType))
	for _, s := range p.Sample {
		if s.Value[value] < 0 {
			negative++
		}
		for i, v := range s.Value {
			sums[i] += math.Abs(float64(v))
		}
	}
	var others []string
	for i, name := range valueNames(p) {
		if sums[i] > 0 {
			others = append(others, name)
		}
	}
	switch name := clean(shortened(p.SampleType[value].Type, 60)); {
	case len(p.Sample) == 0:
		return &ParseError{What: "pprof: the profile has no samples"}
	case negative > 0:
		return &ParseError{
			What: fmt.Sprintf(
				"pprof: %s, so it is the difference of two profiles: "+
					"compare those, with culprit flame --diff BEFORE AFTER",
				plural(negative, "sample has a negative amount", "samples have negative amounts"),
			),
		}
	case sums[value] == 0 && len(others) > 0:
		const what = "pprof: all amounts of %s are 0: choose another value with --value: %s"
		return &ParseError{What: fmt.Sprintf(what, name, listed(others))}
	case sums[value] == 0:
		return &ParseError{What: fmt.Sprintf("pprof: all amounts of %s are 0", name)}
	}
	return nil
}

// labelled returns the frame of a sample's value of the requested label.
func (r *pprofReader) labelled(s *profile.Sample) uint32 {
	words := slices.Clone(s.Label[r.o.Label])
	for i, n := range s.NumLabel[r.o.Label] {
		word := strconv.FormatInt(n, 10)
		if units := s.NumUnit[r.o.Label]; i < len(units) && units[i] != "" {
			word += " " + units[i]
		}
		words = append(words, word)
	}
	text := cmp.Or(strings.Join(words, ", "), "["+r.o.Label+" is not set]")
	f, ok := r.label[text]
	if !ok {
		f = r.b.Function([]byte(text), nil, Process)
		r.label[text] = f
	}
	return f
}

// stack returns the frames of a location.
func (r *pprofReader) stack(l *profile.Location) pprofFrames {
	if known, ok := r.frames[l]; ok {
		return known
	}
	file := ""
	if l.Mapping != nil {
		file = l.Mapping.File
	}
	module, kind := baseName([]byte(file)), kindByFile([]byte(file))
	address := fmt.Appendf(nil, "0x%x", l.Address)
	var out pprofFrames
	for _, line := range slices.Backward(l.Line) {
		f := line.Function
		if f == nil {
			f = &profile.Function{}
		}
		name, k := []byte(f.Name), kind
		if len(name) == 0 {
			name = address
		}
		if marked := kindByName(name); marked != Code {
			k = marked
		}
		n := r.b.Function(name, module, k)
		if g := &r.b.tree.Functions[n]; g.File == "" {
			g.File, g.Line = f.Filename, int(
				min(max(0, cmp.Or(f.StartLine, line.Line)), math.MaxInt32),
			)
		}
		r.o.meter.add(16) // of out
		out.functions = append(out.functions, n)
		out.lines = append(out.lines, int32(min(max(0, line.Line), math.MaxInt32)))
	}
	if len(out.functions) == 0 {
		out.functions, out.lines = []uint32{r.b.Function(address, module, kind)}, []int32{0}
	}
	r.o.meter.add(jsonEntry)
	r.frames[l] = out
	return out
}
