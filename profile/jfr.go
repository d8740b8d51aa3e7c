package profile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/profile/jfr"
)

// JFR is a recording of Java's Flight Recorder.
const JFR Format = "recording of Java's Flight Recorder"

// jfrUsual are events in order of preference: the first one that a recording has is read.
//
// table: names of OpenJDK's metadata.xml, and of async-profiler
var jfrUsual = []string{
	"jdk.ExecutionSample", "jdk.CPUTimeSample", "profiler.WallClockSample",
	"jdk.ObjectAllocationSample", "jdk.ObjectAllocationInNewTLAB", "jdk.JavaMonitorEnter",
	"jdk.NativeMethodSample",
}

// jfrAmounts are the values that count where --value names none, by event. Others count their
// duration, if they have one, else themselves.
//
// table: names of OpenJDK's metadata.xml, and of async-profiler
var jfrAmounts = map[string]string{
	"jdk.ExecutionSample": jfrSamples, "jdk.NativeMethodSample": jfrSamples,
	"jdk.CPUTimeSample": jfrSamples, "profiler.WallClockSample": jfrSamples,
	"jdk.ObjectAllocationSample":      "weight",
	"jdk.ObjectAllocationInNewTLAB":   "tlabSize",
	"jdk.ObjectAllocationOutsideTLAB": "allocationSize",
	"profiler.LiveObject":             "allocationSize",
	"profiler.Malloc":                 "size",
}

// jfrSamples is the value that counts events.
const jfrSamples = "samples"

// maxJFREvents is how many types of events are counted.
const maxJFREvents = 256

// jfrReader builds the tree of a recording. Each event has a set of stacks, since which one is read
// is known at the end.
type jfrReader struct {
	o         Options
	b         *Builder
	asked     []string // events
	sets      map[string]*jfrSet
	others    map[string]int // events without a set
	functions map[*jfr.Method]map[string]uint32
	threads   map[*jfr.Thread]uint32
	stack     []uint32
}

// jfrSet has the stacks of one event.
type jfrSet struct {
	stacks  stackSet
	unit    string
	values  []string // names of the event's values, of its first sample
	missing bool     // no sample has the requested value
	samples int
	cut     int // samples without their outer frames
	bare    int // samples without a stack
}

func readJFR(in io.Reader, o Options) (*Tree, error) {
	r := &jfrReader{o: o, b: o.builder(), sets: map[string]*jfrSet{}, others: map[string]int{},
		functions: map[*jfr.Method]map[string]uint32{}, threads: map[*jfr.Thread]uint32{}}
	if o.Event != "" {
		r.asked = strings.Split(o.Event, ",")
	}
	release := func(n int) { // at the end of a chunk, whose methods and threads are free then
		clear(r.functions)
		clear(r.threads)
		o.meter.release(n)
	}
	f, err := jfr.Read(in, jfr.Handler{
		Charge: o.meter.add, Release: release,
		Wants: r.wants, Sample: r.sample, Other: r.other,
	})
	var wrong *jfr.Error
	if errors.As(err, &wrong) {
		return nil, &ParseError{Byte: wrong.Byte, What: "JFR: " + wrong.What}
	}
	if err != nil {
		return nil, err
	}
	return r.tree(f)
}

// isJFREvent reports whether a name, with or without its package, is that of an event.
func isJFREvent(asked, event string) bool {
	return asked == event || strings.HasSuffix(event, "."+asked)
}

// wants reports whether an event can be in the tree.
func (r *jfrReader) wants(event string) bool {
	for _, a := range r.asked {
		if isJFREvent(a, event) {
			return true
		}
	}
	return len(r.asked) == 0 && slices.Contains(jfrUsual, event)
}

// other counts events that are not wanted.
func (r *jfrReader) other(event string, n int) {
	event = shortened(event, 100)
	if _, known := r.others[event]; known || len(r.others) < maxJFREvents {
		r.others[event] += n
	}
}

// sample adds a sample.
func (r *jfrReader) sample(s *jfr.Sample) error {
	e := r.sets[s.Event]
	if e == nil {
		e = &jfrSet{stacks: stackSet{meter: r.o.meter}, missing: true}
		for _, v := range s.Values {
			e.values = append(e.values, v.Name)
		}
		r.sets[strings.Clone(s.Event)] = e
	}
	amount, unit := 1.0, "samples"
	want := cmp.Or(r.o.Value, jfrAmounts[s.Event], "duration")
	if want == jfrSamples {
		e.missing = false
	}
	for _, v := range s.Values {
		if v.Name == want {
			amount, unit = v.Amount, cmp.Or(v.Unit, want)
			e.missing = false
		}
	}
	e.unit = unit
	e.samples++
	if s.Cut {
		e.cut++
	}
	if len(s.Frames) == 0 {
		e.bare++
	}
	r.stack = append(r.stack[:0], r.thread(s.Thread))
	for _, f := range slices.Backward(s.Frames) {
		r.stack = append(r.stack, r.function(f))
	}
	e.stacks.add(e.stacks.stack(r.stack), amount)
	return nil
}

// thread returns the frame of a thread. Those of a pool have one name, as in jstack.
func (r *jfrReader) thread(t *jfr.Thread) uint32 {
	if f, ok := r.threads[t]; ok {
		return f
	}
	name := "[unknown thread]"
	if t != nil {
		name = t.Name
		if !r.o.TID {
			name = PoolName(name)
		}
		name = cmp.Or(name, "[thread without a name]")
		if r.o.TID {
			name += "-" + strconv.FormatInt(t.Number, 10)
		}
	}
	f := r.b.Function(jsonName(name), nil, Process)
	r.o.meter.add(jsonEntry)
	r.threads[t] = f
	return f
}

// function returns the function of a frame.
func (r *jfrReader) function(f jfr.Frame) uint32 {
	kind := ""
	if f.Kind == "Kernel" || r.o.Marks {
		kind = f.Kind
	}
	known := r.functions[f.Method]
	if id, ok := known[kind]; ok {
		return id
	}
	name, of, mark := f.Method.Name, Code, ""
	if f.Method.Class != "" {
		name = f.Method.Class + "." + name
	}
	switch kind {
	case "Kernel":
		of, mark = Kernel, "_[k]"
	case "JIT compiled":
		of, mark = JIT, "_[j]"
	case "Inlined":
		of, mark = Inlined, "_[i]"
	}
	if r.o.Marks {
		name += mark
	}
	id := r.b.Function(jsonName(name), nil, of)
	r.o.meter.add(4 * jsonEntry)
	if known == nil {
		known = map[string]uint32{}
		r.functions[f.Method] = known
	}
	known[kind] = id
	return id
}

// chosen returns the events that are read.
func (r *jfrReader) chosen() (chosen []string, err error) {
	if len(r.asked) > 0 {
		chosen = slices.Sorted(maps.Keys(r.sets))
	}
	for _, e := range jfrUsual {
		if len(chosen) == 0 && r.sets[e] != nil {
			chosen = []string{e}
		}
	}
	if len(chosen) > 0 {
		return chosen, nil
	}
	what := "JFR: no samples of the CPU, of allocations or locks in it"
	if len(r.asked) > 0 {
		what = "JFR: no events " + clean(shortened(r.o.Event, 100)) + " with a stack in it"
	}
	if len(r.others) > 0 {
		what += "; " + othersNote("", r.others) + ": choose one with --event"
	}
	return nil, &ParseError{What: what}
}

// tree returns the tree of the chosen events.
func (r *jfrReader) tree(f *jfr.File) (*Tree, error) {
	chosen, err := r.chosen()
	if err != nil {
		if p := (*ParseError)(nil); errors.As(err, &p) && f.Unread > 0 {
			p.What += fmt.Sprintf("; %d bytes of a chunk that was not completed can't be read",
				f.Unread)
		}
		return nil, err
	}
	for event, e := range r.sets {
		if !slices.Contains(chosen, event) {
			r.others[event] += e.samples
		}
	}
	unit, samples, cut, bare := r.sets[chosen[0]].unit, 0, 0, 0
	for _, event := range chosen {
		e := r.sets[event]
		switch {
		case e.missing && r.o.Value != "":
			return nil, &ParseError{What: fmt.Sprintf("JFR: %s has no value %q; there are %s",
				event, r.o.Value, listed(append(e.values, jfrSamples)))}
		case e.unit != unit:
			return nil, &ParseError{What: fmt.Sprintf(
				"JFR: amounts of %s are %s, those of %s %s: choose one with --event, or --value %s",
				chosen[0], unit, event, e.unit, jfrSamples)}
		}
		for k := range int32(e.stacks.count) {
			r.b.Stack(e.stacks.functions(k), e.stacks.at(k).amount)
		}
		samples, cut, bare = samples+e.samples, cut+e.cut, bare+e.bare
		r.b.cut += e.stacks.cut
	}
	t := r.b.Tree()
	t.Unit, t.Samples = unit, float64(samples)
	t.Taken = Taken{At: measure.Time(f.Start), Over: measure.Span(max(0, f.End-f.Start))}
	r.notes(t, f, chosen, cut, bare)
	if t.Sum() == 0 {
		return nil, &ParseError{What: fmt.Sprintf("JFR: all amounts of %s are 0: --value %s "+
			"counts events", strings.Join(chosen, ", "), jfrSamples)}
	}
	return t, nil
}

// notes adds what may mislead.
func (r *jfrReader) notes(t *Tree, f *jfr.File, chosen []string, cut, bare int) {
	if len(r.others) > 0 {
		t.note(othersNote(strings.Join(chosen, ", "), r.others))
	}
	if cut > 0 {
		t.note(plural(cut, "stack lacks its", "stacks lack their") + " outermost frames: the " +
			"recording kept the inner ones (-XX:FlightRecorderOptions:stackdepth=)")
	}
	if bare > 0 {
		t.note(plural(bare, "sample has", "samples have") + " no stack")
	}
	if f.Lost > 0 {
		t.note(fmt.Sprintf("the Java program dropped %d bytes of events while they were recorded",
			f.Lost))
	}
	if f.Cut {
		note := "the file is cut off: what was written before is counted"
		if f.Unread > 0 {
			note += fmt.Sprintf(", without %d bytes at its end that nothing explains", f.Unread)
		}
		t.note(note)
	}
}
