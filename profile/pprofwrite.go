package profile

import (
	"cmp"
	"io"
	"math"
	"strings"

	"github.com/google/pprof/profile"
)

// WritePProf writes a profile in pprof's format, packed by gzip. Amounts are rounded to whole
// numbers. Samples of CPUs have the two values of Go's profiles, samples/count and cpu/nanoseconds.
// Period, time and duration are those of Tree.Taken. Notes are comments. The error is the writer's.
func WritePProf(w io.Writer, t *Tree) error {
	return asPProf(t, nil).Write(w)
}

// asPProf returns a tree as pprof has it. labels returns the labels of the samples below a function
// of the first level; nil: there are none.
func asPProf(t *Tree, labels func(*Function) map[string][]string) *profile.Profile {
	p := &profile.Profile{TimeNanos: int64(t.Taken.At), DurationNanos: int64(t.Taken.Over),
		Period: 1}
	for _, n := range t.Notes {
		p.Comments = append(p.Comments, strings.ToValidUTF8(n, "\uFFFD"))
	}
	values := pprofValues(p, t)
	locations := pprofLocations(p, t)
	for i := range t.Len() {
		if t.Self[i] == 0 {
			continue
		}
		s := &profile.Sample{Value: values(t.Self[i])}
		top := int32(0)
		for n := int32(i); n > 0; n = t.Parent[n] {
			s.Location = append(s.Location, locations[t.Function[n]])
			top = n
		}
		if labels != nil {
			s.Label = labels(&t.Functions[t.Function[top]])
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

// pprofValues sets the types of the profile's values and returns the function that converts an
// amount. Servers of profiles name a profile by its sample type and period type, so both are always
// set.
func pprofValues(p *profile.Profile, t *Tree) func(amount float64) []int64 {
	whole := func(v float64) int64 { return int64(math.Round(min(v, 1<<62))) }
	only := func(kind, unit string) {
		p.SampleType = []*profile.ValueType{{Type: kind, Unit: unit}}
		p.PeriodType = &profile.ValueType{Type: kind, Unit: unit}
	}
	switch each := float64(t.Taken.Each); {
	case t.Unit == "samples" && each > 0:
		p.PeriodType = &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
		p.SampleType = []*profile.ValueType{{Type: "samples", Unit: "count"}, p.PeriodType}
		p.DefaultSampleType = "cpu"
		p.Period = int64(t.Taken.Each)
		return func(v float64) []int64 { return []int64{whole(v), whole(v * each)} }
	case t.Unit == "ns" && t.Seconds > 0:
		only("cpu", "nanoseconds")
		p.Period = max(1, int64(t.Taken.Each))
	case t.Unit == "ns": // waits
		only("delay", "nanoseconds")
	case t.Unit == "bytes":
		only("space", "bytes")
	default:
		only(cmp.Or(strings.ToValidUTF8(t.Unit, "\uFFFD"), "samples"), "count")
	}
	return func(v float64) []int64 { return []int64{whole(v)} }
}

// pprofLocations adds the functions and their files to the profile. It returns a location for each
// function.
func pprofLocations(p *profile.Profile, t *Tree) []*profile.Location {
	mappings := map[string]*profile.Mapping{}
	locations := make([]*profile.Location, len(t.Functions))
	for i := 1; i < len(t.Functions); i++ {
		f := &t.Functions[i]
		name, source := strings.ToValidUTF8(f.Name, "\uFFFD"), strings.ToValidUTF8(f.File, "\uFFFD")
		fn := &profile.Function{ID: uint64(i), Name: name, SystemName: name, Filename: source,
			StartLine: int64(f.Line)}
		p.Function = append(p.Function, fn)
		l := &profile.Location{ID: uint64(i),
			Line: []profile.Line{{Function: fn, Line: int64(f.Line)}}}
		if file := pprofFile(f); file != "" {
			m := mappings[file]
			if m == nil {
				// HasFunctions prevents readers from looking up symbols again.
				m = &profile.Mapping{ID: uint64(len(p.Mapping) + 1), File: file, HasFunctions: true,
					HasFilenames: true, HasLineNumbers: true}
				mappings[file] = m
				p.Mapping = append(p.Mapping, m)
			}
			l.Mapping = m
		}
		p.Location = append(p.Location, l)
		locations[i] = l
	}
	return locations
}

// pprofFile returns the file of a function's mapping, which also shows the kind of its code.
func pprofFile(f *Function) string {
	file := strings.ToValidUTF8(f.Module, "\uFFFD")
	switch {
	case f.Kind == Process:
		return ""
	case f.Kind == Kernel && kindByFile([]byte(file)) != Kernel:
		return "[" + cmp.Or(file, "kernel.kallsyms") + "]"
	case f.Kind == JIT && kindByFile([]byte(file)) != JIT:
		return "perf-.map"
	}
	return file
}
