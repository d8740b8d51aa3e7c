package profile

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"culprit/measure"
)

// speedscope's own format: https://www.speedscope.app/file-format-schema.json. Profiles share
// frames. A profile is a list of stacks with weights, or of functions that open and close.

type scopeFrame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

type scopeFile struct {
	Schema string `json:"$schema"`
	Shared struct {
		Frames []scopeFrame `json:"frames"`
	} `json:"shared"`
	Profiles []scopeProfile `json:"profiles"`
	Active   *int           `json:"activeProfileIndex"`
}

type scopeProfile struct {
	Type    string       `json:"type"`
	Name    string       `json:"name"`
	Unit    string       `json:"unit"`
	Start   float64      `json:"startValue"`
	End     float64      `json:"endValue"`
	Samples [][]int      `json:"samples"`
	Weights []float64    `json:"weights"`
	Events  []scopeEvent `json:"events"`
}

type scopeEvent struct {
	Type  string  `json:"type"`
	Frame int     `json:"frame"`
	At    float64 `json:"at"`
}

func readSpeedscope(r io.Reader, o Options) (*Tree, error) {
	var f scopeFile
	if err := decodeJSON(r, o.meter, "profile of speedscope", &f); err != nil {
		return nil, err
	}
	if len(f.Profiles) == 0 {
		return nil, &ParseError{What: "JSON, and no profile of speedscope: it has no profiles"}
	}
	b := o.builder()
	frames, lines := make([]uint32, len(f.Shared.Frames)), make([]int32, len(f.Shared.Frames))
	timed := slices.ContainsFunc(f.Profiles, func(p scopeProfile) bool {
		return p.Type == "evented" || isScopeTime(p.Unit)
	})
	var timer *timer
	if timed {
		timer = o.timer(false)
	}
	for i, s := range f.Shared.Frames {
		frames[i] = b.Named([]byte(s.Name))
		lines[i] = int32(min(max(0, s.Line), math.MaxInt32))
		if g := &b.tree.Functions[frames[i]]; g.File == "" {
			g.File, g.Line = s.File, min(max(0, s.Line), math.MaxInt32)
		}
	}
	first := 0
	if f.Active != nil && *f.Active >= 0 && *f.Active < len(f.Profiles) {
		first = *f.Active
	}
	unit, others := f.Profiles[first].Unit, 0
	for i := range f.Profiles {
		p := &f.Profiles[i]
		if p.Unit != unit {
			others++
			continue
		}
		w := chartWriter{b: b, timer: timer}
		if timer != nil {
			key := strconv.Itoa(i + 1)
			w.thread = timer.thread(key, []byte(cmp.Or(p.Name, "profile "+key)))
		}
		if err := p.read(&w, frames, lines, i); err != nil {
			return nil, err
		}
	}
	t := b.Tree()
	t.Times = timer.timeline(nil).scaled(scopeNanoseconds[unit])
	t.Unit = map[string]string{"nanoseconds": "ns", "none": "samples", "": "samples"}[unit]
	if t.Unit == "" {
		t.Unit = clean(shortened(unit, 40))
	}
	switch {
	case others > 0:
		t.note(
			fmt.Sprintf("%s left out, whose amounts are not %s",
				plural(others, "profile is", "profiles are"), clean(shortened(unit, 40))),
		)
	case len(f.Profiles) > 1:
		t.note(fmt.Sprintf("%d profiles are added up", len(f.Profiles)))
	}
	return t, nil
}

// decodeJSON reads a profile that is one JSON value of at most maxProfile bytes. It charges the
// meter with the text and what it decodes to.
func decodeJSON(r io.Reader, m *meter, what string, into any) error {
	in := &io.LimitedReader{R: r, N: maxProfile}
	var raw json.RawMessage
	err := json.NewDecoder(in).Decode(&raw)
	if err == nil {
		m.add(len(raw))
		err = m.unmarshal(raw, into)
	}
	if err == nil {
		return nil
	}
	switch {
	case in.N == 0:
		return &ParseError{Byte: maxProfile, What: "a profile of more than 2 GB"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &ParseError{Byte: maxProfile - in.N, What: "JSON: cut off"}
	}
	return jsonFault(err, what)
}

// jsonFault returns an error of encoding/json as a *ParseError; others unchanged.
func jsonFault(err error, what string) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return &ParseError{Byte: syntax.Offset, What: "JSON: " + err.Error()}
	case errors.As(err, &kind):
		return &ParseError{Byte: kind.Offset, What: what + ": " + kindError(kind)}
	}
	return err
}

// scopeNanoseconds are the units of time.
//
// table: the schema of speedscope
var scopeNanoseconds = map[string]float64{
	"nanoseconds": 1, "microseconds": 1e3, "milliseconds": 1e6, "seconds": 1e9,
}

func isScopeTime(unit string) bool { return scopeNanoseconds[unit] > 0 }

func (p *scopeProfile) read(w *chartWriter, frames []uint32, lines []int32, n int) error {
	wrong := func(format string, args ...any) error {
		return &ParseError{
			What: fmt.Sprintf("speedscope: profile %d: ", n+1) + fmt.Sprintf(format, args...),
		}
	}
	switch p.Type {
	case "sampled":
		if len(p.Weights) != len(p.Samples) {
			return wrong("%d samples have %d weights", len(p.Samples), len(p.Weights))
		}
		return p.sampled(w, frames, lines, wrong)
	case "evented":
		return p.evented(w, frames, lines, wrong)
	}
	return wrong("type %q is neither sampled nor evented", p.Type)
}

// sampled reads a list of samples. Each sample begins where the previous one ended.
func (p *scopeProfile) sampled(
	w *chartWriter, frames []uint32, lines []int32, wrong func(string, ...any) error,
) error {
	var stack []uint32
	var at []int32
	now := p.Start
	for i, s := range p.Samples {
		stack, at = stack[:0], at[:0]
		for _, f := range s {
			if f < 0 || f >= len(frames) {
				return wrong("sample %d names frame %d of %d", i+1, f, len(frames))
			}
			stack, at = append(stack, frames[f]), append(at, lines[f])
		}
		node, weight := w.b.Lined(stack, at, p.Weights[i]), p.Weights[i]
		if isScopeTime(p.Unit) && weight > 0 {
			w.timer.add(Moment{Thread: w.thread, Node: node, Kept: -1, At: now, For: weight,
				Amount: weight})
			now += weight
		}
	}
	return nil
}

// evented reads functions that open and close.
func (p *scopeProfile) evented(
	w *chartWriter, frames []uint32, lines []int32, wrong func(string, ...any) error,
) error {
	path, at := []Call{{}}, 0.0
	var open []int // the frames of the path
	rows := lineSpans{set: &w.b.lines, since: map[lineKey]openLine{}}
	until := func(now float64) { // the innermost function ran
		if n := len(open); n > 0 {
			rows.self(frames[open[n-1]], lines[open[n-1]], now-at)
			w.add(path[n], n, at, now)
		}
		at = now
	}
	for i, e := range p.Events {
		if e.Frame < 0 || e.Frame >= len(frames) {
			return wrong("event %d names frame %d of %d", i+1, e.Frame, len(frames))
		}
		if i > 0 && e.At < at {
			return wrong("event %d goes back in time", i+1)
		}
		until(e.At)
		top := path[len(path)-1]
		switch {
		case e.Type == "O" && len(path) <= MaxDepth:
			path, open = append(path, w.b.Child(top, frames[e.Frame])), append(open, e.Frame)
			rows.open(frames[e.Frame], lines[e.Frame], at)
		case e.Type == "C" && top.Node > 0 && w.b.tree.Function[top.Node] == frames[e.Frame]:
			last := open[len(open)-1]
			path, open = path[:len(path)-1], open[:len(open)-1]
			rows.closed(frames[last], lines[last], at)
			w.ended(len(open))
		case e.Type == "C":
			return wrong("event %d closes what is not open", i+1)
		default:
			return wrong("event %d is of type %q, or deeper than 65,536 frames", i+1, e.Type)
		}
	}
	if len(open) > 0 { // cut off: open functions end with the profile
		if p.End > at && !math.IsInf(p.End, 1) {
			until(p.End)
		}
		count := plural(len(open), "function was", "functions were")
		w.b.tree.note(count + " still open at the end of a profile and end with it")
		for _, f := range slices.Backward(open) {
			rows.closed(frames[f], lines[f], at)
		}
	}
	return nil
}

// WriteSpeedscope writes a profile for https://www.speedscope.app. The error is the writer's.
func WriteSpeedscope(w io.Writer, t *Tree, name string) error {
	out := bufio.NewWriterSize(w, 64<<10)
	frames := make([]scopeFrame, len(t.Functions)-1)
	for i, f := range t.Functions[1:] {
		file := f.File
		if file == "" {
			file = f.Module
		}
		frames[i] = scopeFrame{f.Name, file, f.Line}
	}
	unit := map[string]string{
		"ns": "nanoseconds", "bytes": "bytes", "seconds": "seconds",
		"milliseconds": "milliseconds", "microseconds": "microseconds",
	}[t.Unit]
	if unit == "" {
		unit = "none"
	}
	head, err := measure.MarshalJSON(struct {
		Schema   string `json:"$schema"`
		Name     string `json:"name"`
		Exporter string `json:"exporter"`
		Active   int    `json:"activeProfileIndex"`
		// speedscope ignores unknown members, such as these notes.
		Notes []string `json:"notes,omitempty"`
	}{
		"https://www.speedscope.app/file-format-schema.json", name, "culprit", 0,
		boundedNotes(t.Notes),
	})
	if err != nil {
		return err
	}
	shared, err := measure.MarshalJSON(frames)
	if err != nil {
		return err
	}
	title, err := measure.MarshalJSON(name)
	if err != nil {
		return err
	}
	fmt.Fprintf(out,
		"%s,\"shared\":{\"frames\":%s},\"profiles\":[{\"type\":\"sampled\",\"name\":%s,\"unit\":%q,\"startValue\":0,\"endValue\":%s,\"samples\":[",
		head[:len(head)-1], shared, title, unit, AppendAmount(nil, t.Sum()))
	var b []byte
	var path []uint32
	comma := ""
	for i := range t.Len() {
		if t.Self[i] == 0 {
			continue
		}
		path = path[:0]
		for n := int32(i); n > 0; n = t.Parent[n] {
			path = append(path, t.Function[n]-1)
		}
		b = append(append(b[:0], comma...), '[')
		for k, f := range slices.Backward(path) {
			b = AppendAmount(b, float64(f))
			if k > 0 {
				b = append(b, ',')
			}
		}
		out.Write(append(b, ']')) //nolint:errcheck // Flush returns it
		comma = ","
	}
	out.WriteString(`],"weights":[`) //nolint:errcheck // as above
	comma = ""
	for i := range t.Len() {
		if t.Self[i] > 0 {
			out.Write(
				AppendAmount(append(b[:0], comma...), t.Self[i]),
			) //nolint:errcheck // as above
			comma = ","
		}
	}
	out.WriteString("]}]}\n") //nolint:errcheck // as above
	return out.Flush()
}
