package web

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/web/api"
)

// datasets lists and changes what is recorded.
type datasets struct{ *core }

// list replies with all datasets.
func (s *datasets) list(w http.ResponseWriter, r *http.Request) error {
	if err := noParameters(r); err != nil {
		return err
	}
	b := []byte(`{"datasets":[`)
	for i, d := range s.Machine.Datasets() {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.append(b, &d)
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

// append appends the JSON of a dataset.
func (s *datasets) append(b []byte, d *measure.Dataset) []byte {
	held, usage := s.Machine.Held(d.ID), s.Machine.Usage(d.ID)
	b = strconv.AppendUint(append(b, `{"id":`...), uint64(d.ID), 10)
	b = view.AppendString(append(b, `,"sentence":`...), d.Query.String())
	b = view.AppendString(append(b, `,"kind":`...), d.Stat.Kind.String())
	b = view.AppendString(append(b, `,"unit":`...), string(d.Stat.AnswerUnit()))
	b = api.AppendMillis(append(b, `,"step_ms":`...), int64(d.Query.Step))
	b = api.AppendMillis(append(b, `,"since_ms":`...), int64(d.Created))
	b = view.AppendString(append(b, `,"state":`...), d.State.String())
	b = view.AppendString(append(b, `,"maker":`...), d.Creator)
	b = strconv.AppendInt(append(b, `,"rows":`...), int64(held.Rows), 10)
	b = view.AppendNumber(append(b, `,"samples_per_s":`...), usage.Samples)
	b = strconv.AppendUint(append(b, `,"samples":`...), held.Samples, 10)
	b = strconv.AppendInt(append(b, `,"disk_bytes":`...), held.Disk, 10)
	b = strconv.AppendInt(append(b, `,"memory_bytes":`...), held.Memory, 10)
	b = view.AppendNumber(append(b, `,"cpu":`...), usage.CPU)
	b = appendTime(append(b, `,"from_ms":`...), held.Over.Start)
	b = appendTime(append(b, `,"to_ms":`...), held.Over.End)
	b = appendLoss(append(b, `,"loss":`...), held.Loss)
	return append(b, '}')
}

// appendTime appends a time in milliseconds; null for 0.
func appendTime(b []byte, t measure.Time) []byte {
	if t == 0 {
		return append(b, "null"...)
	}
	return api.AppendMillis(b, int64(t))
}

// enable starts to record a query.
func (s *datasets) enable(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Query  string  `json:"sentence"`
		StepMS float64 `json:"step_ms"`
	}
	if err := readBody(r, &body); err != nil {
		return err
	}
	q, err := s.parseQuery(body.Query)
	if err != nil {
		return err
	}
	ms := body.StepMS
	if ms == 0 {
		ms = 1000
	}
	if !(ms >= 1000 && ms <= 24*3600*1000) || ms != float64(int64(ms/1000)*1000) {
		return badRequest("step_ms: %v is not a whole number of seconds up to a day", ms)
	}
	q.Step = measure.Span(ms) * measure.Millisecond
	id, err := s.Machine.Enable(auditName(r), q)
	if err != nil {
		return refused(err)
	}
	if d := s.find(id); d != nil {
		return s.sendJSON(w, r, s.append(nil, d))
	}
	return s.sendJSON(w, r, append(strconv.AppendUint([]byte(`{"id":`), uint64(id), 10), '}'))
}

// refused returns an error of the machine as a refusal, unless it has a code of its own.
func refused(err error) error {
	if f := faultOf(err); f.Code != "broken" {
		return f
	}
	return &fault{status: http.StatusConflict, Code: "refused", Message: err.Error()}
}

// find returns the dataset with the ID, or nil.
func (s *datasets) find(id uint32) *measure.Dataset {
	all := s.Machine.Datasets()
	i := slices.IndexFunc(all, func(d measure.Dataset) bool { return d.ID == id })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// timeRange is the body of a change.
type timeRange struct {
	From *float64 `json:"from_ms"`
	To   *float64 `json:"to_ms"`
}

// change suspends, resumes or destroys a dataset, or discards a time range of it.
func (s *datasets) change(w http.ResponseWriter, r *http.Request) error {
	id64, err := strconv.ParseUint(r.PathValue("id"), 10, 32)
	id := uint32(id64)
	if err != nil || s.find(id) == nil {
		return notFound(
			"there is no dataset "+printable(r.PathValue("id")), "api/datasets lists them",
		)
	}
	var body timeRange
	if err := readBody(r, &body); err != nil {
		return err
	}
	action := r.PathValue("action")
	if action != "discard" && (body.From != nil || body.To != nil) {
		return badRequest("only discard takes a time")
	}
	caller := auditName(r)
	switch action {
	case "suspend":
		err = s.Machine.Suspend(caller, id)
	case "resume":
		err = s.Machine.Resume(caller, id)
	case "destroy":
		err = s.Machine.Destroy(caller, id)
	case "discard":
		over, f := body.interval()
		if f != nil {
			return f
		}
		err = s.Machine.Discard(caller, id, over)
	default:
		return notFound("unknown action "+printable(action), "suspend, resume, destroy or discard")
	}
	if err != nil {
		return refused(err)
	}
	if d := s.find(id); d != nil {
		return s.sendJSON(w, r, s.append(nil, d))
	}
	return s.sendJSON(w, r, []byte("{}"))
}

// interval returns the time range of a discard.
func (t timeRange) interval() (measure.Interval, *fault) {
	if t.From == nil || t.To == nil ||
		!(*t.From >= 0 && *t.To > *t.From && *t.To < float64(lastTime)/1e6) {
		return measure.Interval{}, badRequest(
			"discard needs from_ms and to_ms, the first before the second",
		)
	}
	start, end := measure.Time(*t.From*1e6), measure.Time(*t.To*1e6)
	return measure.Interval{Start: start, End: end}, nil
}

// changes replies with the audit log of a time range.
func (s *datasets) changes(w http.ResponseWriter, r *http.Request) error {
	now := measure.Time(time.Now().UnixNano())
	p, err := parametersOf(r.URL.RawQuery, now, []string{"from", "to"}, nil)
	if err != nil {
		return err
	}
	over, err := p.over(maxSpan)
	if err != nil {
		return err
	}
	over.Start = max(over.Start, 0)
	all, err := s.Machine.Changes(r.Context(), over)
	if err != nil {
		return err
	}
	b := []byte(`{"changes":[`)
	for i, c := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = api.AppendMillis(append(b, `{"at_ms":`...), int64(c.At))
		b = view.AppendString(append(b, `,"who":`...), c.Actor)
		b = view.AppendString(append(b, `,"what":`...), c.Action)
		b = strconv.AppendUint(append(b, `,"dataset":`...), uint64(c.Dataset), 10)
		b = view.AppendString(append(b, `,"sentence":`...), c.Query)
		if c.Over != (measure.Interval{}) {
			b = api.AppendMillis(append(b, `,"from_ms":`...), int64(c.Over.Start))
			b = api.AppendMillis(append(b, `,"to_ms":`...), int64(c.Over.End))
		}
		b = append(b, '}')
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}
