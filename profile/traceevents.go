package profile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// Trace events are written by Chrome, Perfetto, py-spy and others. An event is the start of a call
// (B), its end (E), or both (X). A trace of DevTools can also contain a V8 profile in pieces
// (ProfileChunk), which is read instead.
//
// Source: "Trace Event Format". Times are microseconds.

type traceEvent struct {
	Phase    string          `json:"ph"`
	Name     string          `json:"name"`
	ID       json.RawMessage `json:"id"`
	Time     jsonNumber      `json:"ts"`
	Duration jsonNumber      `json:"dur"`
	PID      json.RawMessage `json:"pid"`
	TID      json.RawMessage `json:"tid"`
	Args     json.RawMessage `json:"args"`
}

// A traceSpan is the start and end of a call.
type traceSpan struct {
	from, to float64
	name     uint32
}

// A traceThread contains the calls of a thread.
type traceThread struct {
	name  string
	spans []traceSpan
	open  []int // of spans, the outermost first
	last  float64
}

// maxChunks is the number of V8 profiles in one trace that are read.
const maxChunks = 1000

// A traceReader reads trace events.
type traceReader struct {
	o        Options
	b        *Builder
	threads  map[string]*traceThread
	order    []string
	chunks   map[string]*v8Profile
	stray    int // number of ends without a start
	cut      bool
	profiles []string
	samples  []traceSample
	frames   map[string]traceFrame
	timer    *timer
}

// A traceSample is a stack, by the number of its innermost frame. Hermes writes it beside the
// events.
type traceSample struct {
	Frame  json.RawMessage `json:"sf"`
	Weight *jsonNumber     `json:"weight"` // nil: 1
	PID    json.RawMessage `json:"pid"`
	TID    json.RawMessage `json:"tid"`
}

// thread returns the key of the sampled thread.
func (s *traceSample) thread() string { return traceKey(s.PID, s.TID) }

// traceKey joins identifiers. Writers use a number and a string for the same one.
func traceKey(ids ...json.RawMessage) string {
	var key []string
	for _, id := range ids {
		key = append(key, strings.Trim(string(id), `"`))
	}
	return strings.Join(key, "/")
}

// A traceFrame is a frame with the number of its caller.
type traceFrame struct {
	Name   string          `json:"name"`
	Parent json.RawMessage `json:"parent"`
}

func readTraceEvents(r io.Reader, o Options) (*Tree, error) {
	in := &io.LimitedReader{R: r, N: maxProfile}
	d := json.NewDecoder(in)
	t := &traceReader{o: o, b: o.builder(), threads: map[string]*traceThread{},
		chunks: map[string]*v8Profile{}, timer: o.timer(false)}
	err := t.read(d)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case in.N <= 0:
		return nil, &ParseError{Byte: maxProfile, What: "a profile of more than 2 GB"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		t.cut = true // the end of the list may be missing
	case errors.As(err, &syntax):
		return nil, &ParseError{Byte: syntax.Offset, What: "JSON: " + err.Error()}
	case errors.As(err, &kind):
		return nil, &ParseError{Byte: d.InputOffset(),
			What: string(TraceEvents) + ": " + kindError(kind)}
	case err != nil:
		return nil, err
	}
	if len(t.profiles) > 0 {
		return t.profile()
	}
	if len(t.samples) > 0 && len(t.frames) > 0 {
		return t.stacks()
	}
	return t.tree()
}

// read reads the events of a list, or of the list traceEvents of an object.
func (t *traceReader) read(d *json.Decoder) error {
	first, err := d.Token()
	if err != nil {
		return err
	}
	if first == json.Delim('[') {
		return t.list(d)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key == "samples" || key == "stackFrames" {
			if err := t.sampled(d, key == "samples"); err != nil {
				return err
			}
			continue
		}
		if key != "traceEvents" {
			var other json.RawMessage
			if err := d.Decode(&other); err != nil {
				return err
			}
			continue
		}
		if open, err := d.Token(); err != nil || open != json.Delim('[') {
			return cmp.Or(err, jsonError(TraceEvents, "traceEvents is no list"))
		}
		if err := t.list(d); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func (t *traceReader) list(d *json.Decoder) error {
	for d.More() {
		var e traceEvent
		if err := d.Decode(&e); err != nil {
			return err
		}
		if err := t.event(&e); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func (t *traceReader) event(e *traceEvent) error {
	switch {
	case e.Phase == "P" && (e.Name == "Profile" || e.Name == "ProfileChunk"),
		e.Name == "CpuProfile":
		return t.chunk(e)
	case e.Phase == "M" && e.Name == "thread_name":
		var args struct {
			Name string `json:"name"`
		}
		if t.o.meter.unmarshal(e.Args, &args) == nil && args.Name != "" {
			t.thread(e).name = args.Name
		}
		return nil
	case e.Phase != "X" && e.Phase != "B" && e.Phase != "E":
		return nil
	}
	from, duration := float64(e.Time), max(0, float64(e.Duration))
	if math.Abs(from) > 1e18 || duration > 1e18 {
		return jsonError(TraceEvents, "an event at %v of %v µs", from, duration)
	}
	t.o.meter.add(2 * int(unsafe.Sizeof(traceSpan{})+unsafe.Sizeof(0)))
	th := t.thread(e)
	th.last = max(th.last, from+duration)
	switch e.Phase {
	case "X":
		th.spans = append(th.spans, traceSpan{from, from + duration, t.b.Named(jsonName(e.Name))})
	case "B":
		if len(th.open) >= MaxDepth {
			return jsonError(TraceEvents, "deeper than 65,536 frames")
		}
		th.open = append(th.open, len(th.spans))
		th.spans = append(th.spans, traceSpan{from, math.Inf(1), t.b.Named(jsonName(e.Name))})
	case "E":
		if len(th.open) == 0 {
			t.stray++
			return nil
		}
		th.spans[th.open[len(th.open)-1]].to = from
		th.open = th.open[:len(th.open)-1]
	}
	return nil
}

// thread returns the thread of an event.
func (t *traceReader) thread(e *traceEvent) *traceThread {
	key := traceKey(e.PID, e.TID)
	th := t.threads[key]
	if th == nil {
		name := "thread " + key
		t.o.meter.add(jsonEntry + 256 + 3*len(key))
		th = &traceThread{name: name}
		t.threads[key] = th
		t.order = append(t.order, key)
	}
	return th
}

// tree returns the calls of all threads with their own time.
func (t *traceReader) tree() (*Tree, error) {
	busy, open := 0, 0
	for _, key := range t.order {
		if len(t.threads[key].spans) > 0 {
			busy++
		}
	}
	for _, key := range t.order {
		th := t.threads[key]
		open += len(th.open)
		root := Call{}
		if busy > 1 && len(th.spans) > 0 {
			root = t.b.Child(root, t.b.Function(jsonName(th.name), nil, Process))
		}
		w := chartWriter{b: t.b, timer: t.timer, thread: t.timer.thread(key, []byte(th.name))}
		if err := th.add(&w, root); err != nil {
			return nil, err
		}
	}
	if open > 0 {
		calls := plural(open, "call was", "calls were")
		t.b.tree.note(calls + " still open at the end and end with the thread's last event")
	}
	if t.stray > 0 {
		t.b.tree.note(
			plural(t.stray, "end of a call is",
				"ends of calls are") + " omitted: their starts are missing",
		)
	}
	if t.cut && busy > 0 && open == 0 {
		t.b.tree.note("the list of events has no end")
	}
	tree := t.b.Tree()
	tree.Unit, tree.Times = "ns", t.timer.timeline(nil)
	return nonEmpty(tree, TraceEvents)
}

// A chartWriter adds the time of one thread, stack by stack in the order of time, to a tree and a
// timer.
type chartWriter struct {
	b      *Builder
	timer  *timer
	thread uint32
	kept   int // functions of the stack that went on since the last moment
}

// add adds the time from and to a time in ns, in which a stack of depth functions ran.
func (w *chartWriter) add(at Call, depth int, from, to float64) {
	w.b.Add(at.Node, to-from)
	if to > from {
		w.timer.add(Moment{
			Thread: w.thread, Node: at.Node, Kept: int32(min(w.kept, depth)),
			At: from, For: to - from, Amount: to - from,
		})
		w.kept = depth
	}
}

// ended records that functions ended: depth are left.
func (w *chartWriter) ended(depth int) { w.kept = min(w.kept, depth) }

// add adds a thread's calls below root. A call that ends after its caller ends with it.
func (th *traceThread) add(w *chartWriter, root Call) error {
	for i := range th.spans {
		th.spans[i].to = min(th.spans[i].to, max(th.last, th.spans[i].from))
	}
	slices.SortStableFunc(th.spans, func(a, c traceSpan) int {
		return cmp.Or(cmp.Compare(a.from, c.from), cmp.Compare(c.to, a.to))
	})
	type active struct {
		call Call
		to   float64
	}
	path, at := []active{{root, math.Inf(1)}}, 0.0
	outer := 0 // functions above the path: the thread
	if root.Node > 0 {
		outer = 1
	}
	leave := func(until float64) { // ends calls that end before
		for len(path) > 1 && path[len(path)-1].to <= until {
			top := path[len(path)-1]
			w.add(top.call, outer+len(path)-1, at*1000, top.to*1000)
			at, path = top.to, path[:len(path)-1]
			w.ended(outer + len(path) - 1)
		}
	}
	for _, s := range th.spans {
		leave(s.from)
		top := path[len(path)-1]
		if len(path) > 1 {
			w.add(top.call, outer+len(path)-1, at*1000, s.from*1000)
		}
		at = s.from
		if len(path) > MaxDepth {
			return jsonError(TraceEvents, "deeper than 65,536 frames")
		}
		path = append(path, active{w.b.Child(top.call, s.name), min(s.to, top.to)})
	}
	leave(math.MaxFloat64)
	return nil
}

// chunk adds a piece of a V8 profile.
func (t *traceReader) chunk(e *traceEvent) error {
	var args struct {
		Data struct {
			Start    float64    `json:"startTime"`
			End      float64    `json:"endTime"`
			Profile  *v8Profile `json:"cpuProfile"`
			Deltas   []float64  `json:"timeDeltas"`
			Finished bool       `json:"finished"`
		} `json:"data"`
	}
	if err := t.o.meter.unmarshal(e.Args, &args); err != nil {
		return jsonError(TraceEvents, "%s: %v", e.Name, err)
	}
	key := traceKey(e.PID, e.ID)
	if len(e.ID) == 0 { // a whole profile, one per thread
		key = traceKey(e.PID, e.ID, e.TID)
	}
	p := t.chunks[key]
	if p == nil {
		if len(t.chunks) >= maxChunks {
			return jsonError(TraceEvents, "more than %d profiles", maxChunks)
		}
		p = &v8Profile{}
		t.chunks[key] = p
		t.profiles = append(t.profiles, key)
	}
	p.Start, p.End = cmp.Or(p.Start, args.Data.Start), cmp.Or(args.Data.End, p.End)
	if part := args.Data.Profile; part != nil {
		t.o.meter.add(len(part.Nodes) * 2 * int(unsafe.Sizeof(v8Node{})))
	}
	p.Deltas = append(p.Deltas, args.Data.Deltas...)
	if part := args.Data.Profile; part != nil {
		p.Nodes = append(p.Nodes, part.Nodes...)
		p.Samples = append(p.Samples, part.Samples...)
		p.Deltas = append(p.Deltas, part.Deltas...)
		p.Start, p.End = cmp.Or(p.Start, part.Start), cmp.Or(p.End, part.End)
	}
	return nil
}

// profile returns the V8 profile that has the most samples.
func (t *traceReader) profile() (*Tree, error) {
	var best *v8Profile
	filled := 0
	for _, key := range t.profiles {
		p := t.chunks[key]
		if len(p.Samples) > 0 {
			filled++
		}
		if best == nil || len(p.Samples) > len(best.Samples) {
			best = p
		}
	}
	best.linkParents()
	if n := len(best.Deltas); n > 0 &&
		best.End == 0 { // the last sample lasts as long as the others
		total := 0.0
		for _, d := range best.Deltas {
			total += d
		}
		best.End = best.Start + total + total/float64(n)
	}
	tree, err := best.tree(t.o)
	if err == nil && filled > 1 {
		tree.note(
			fmt.Sprintf("there are %s profiles: this is the one with the most samples",
				strconv.Itoa(filled)),
		)
	}
	return tree, err
}

// linkParents adds nodes that refer to their parent to its children. Some versions write both.
func (p *v8Profile) linkParents() {
	place := make(map[int64]int, len(p.Nodes))
	for i := range p.Nodes {
		place[p.Nodes[i].ID] = i
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		up, ok := place[n.Parent]
		if n.Parent != 0 && ok && !slices.Contains(p.Nodes[up].Children, n.ID) {
			p.Nodes[up].Children = append(p.Nodes[up].Children, n.ID)
		}
	}
}

// sampled reads samples or frames beside the events.
func (t *traceReader) sampled(d *json.Decoder, samples bool) error {
	var into any = &t.frames
	if samples {
		into = &t.samples
	}
	var raw json.RawMessage
	err := d.Decode(&raw)
	if err == nil {
		err = t.o.meter.unmarshal(raw, into)
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) { // of another kind
		return nil
	}
	return err
}

// stacks returns the stacks beside the events.
func (t *traceReader) stacks() (*Tree, error) {
	b := t.o.builder()
	threads := map[string]bool{}
	for i := range t.samples {
		threads[t.samples[i].thread()] = true
	}
	var stack []uint32
	for i := range t.samples {
		s := &t.samples[i]
		stack = stack[:0]
		for id := strings.Trim(string(s.Frame), `"`); id != "" && id != "null"; {
			f, ok := t.frames[id]
			if !ok || len(stack) >= MaxDepth {
				return nil, jsonError(TraceEvents,
					"sample %d is of frame %s, which is not there, or deeper than 65,536 frames",
					i+1, shortened(id, 20))
			}
			stack = append(stack, b.Named(jsonName(f.Name)))
			id = strings.Trim(string(f.Parent), `"`)
		}
		if key := s.thread(); len(threads) > 1 {
			name := "thread " + key
			if th := t.threads[key]; th != nil {
				name = th.name
			}
			stack = append(stack, b.Function(jsonName(name), nil, Process))
		}
		slices.Reverse(stack)
		weight := 1.0
		if s.Weight != nil {
			weight = max(0, float64(*s.Weight))
		}
		b.Stack(stack, weight)
	}
	return nonEmpty(b.Tree(), TraceEvents)
}
