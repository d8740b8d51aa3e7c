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

// datasets lists what is recorded.
func (s *Server) datasets(w http.ResponseWriter, r *http.Request) error {
	if _, err := parametersOf(r.URL.RawQuery, 0, nil, nil); err != nil {
		return err
	}
	b := []byte(`{"datasets":[`)
	for i, d := range s.Machine.Datasets() {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendDataset(b, &d)
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

func (s *Server) appendDataset(b []byte, d *measure.Dataset) []byte {
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

// appendTime appends a moment in milliseconds; null when it is not set.
func appendTime(b []byte, t measure.Time) []byte {
	if t == 0 {
		return append(b, "null"...)
	}
	return api.AppendMillis(b, int64(t))
}

// enable begins to record a sentence.
func (s *Server) enable(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Sentence string  `json:"sentence"`
		StepMS   float64 `json:"step_ms"`
	}
	if err := body(r, &asked); err != nil {
		return err
	}
	q, err := s.query(asked.Sentence)
	if err != nil {
		return err
	}
	if asked.StepMS == 0 {
		asked.StepMS = 1000
	}
	if !(asked.StepMS >= 1000 && asked.StepMS <= 24*3600*1000) || asked.StepMS != float64(int64(asked.StepMS/1000)*1000) {
		return badf("step_ms: %v is no number of whole seconds up to a day", asked.StepMS)
	}
	q.Step = measure.Span(asked.StepMS) * measure.Millisecond
	id, err := s.Machine.Enable(whoOf(r), q)
	if err != nil {
		return refused(err)
	}
	if d := s.dataset(id); d != nil {
		return s.sendJSON(w, r, s.appendDataset(nil, d))
	}
	return s.sendJSON(w, r, append(strconv.AppendUint([]byte(`{"id":`), uint64(id), 10), '}'))
}

// refused makes an error without a kind of its own a refusal: the machine would not, and the error says why.
func refused(err error) error {
	if f := faultOf(err); f.Code != "broken" {
		return f
	}
	return &fault{status: http.StatusConflict, Code: "refused", Message: err.Error()}
}

// dataset gives the dataset with the ID, or nil.
func (s *Server) dataset(id uint32) *measure.Dataset {
	all := s.Machine.Datasets()
	if i := slices.IndexFunc(all, func(d measure.Dataset) bool { return d.ID == id }); i >= 0 {
		return &all[i]
	}
	return nil
}

// change suspends, resumes, destroys or discards.
func (s *Server) change(w http.ResponseWriter, r *http.Request) error {
	id64, err := strconv.ParseUint(r.PathValue("id"), 10, 32)
	id := uint32(id64)
	d := s.dataset(id)
	if err != nil || d == nil {
		return &fault{status: http.StatusNotFound, Code: "not-found", Message: "there is no dataset " + printable(r.PathValue("id")), Hint: "api/datasets lists them"}
	}
	var asked struct {
		From *float64 `json:"from_ms"`
		To   *float64 `json:"to_ms"`
	}
	if err := body(r, &asked); err != nil {
		return err
	}
	action := r.PathValue("action")
	if action != "discard" && (asked.From != nil || asked.To != nil) {
		return badf("only discard takes a time")
	}
	who := whoOf(r)
	switch action {
	case "suspend":
		err = s.Machine.Suspend(who, id)
	case "resume":
		err = s.Machine.Resume(who, id)
	case "destroy":
		err = s.Machine.Destroy(who, id)
	case "discard":
		if asked.From == nil || asked.To == nil || !(*asked.From >= 0 && *asked.To > *asked.From && *asked.To < float64(lastTime)/1e6) {
			return badf("discard needs from_ms and to_ms, the first before the second")
		}
		err = s.Machine.Discard(who, id, measure.Interval{Start: measure.Time(*asked.From * 1e6), End: measure.Time(*asked.To * 1e6)})
	default:
		return &fault{status: http.StatusNotFound, Code: "not-found", Message: "a dataset can't be told to " + printable(action), Hint: "suspend, resume, destroy or discard"}
	}
	if err != nil {
		return refused(err)
	}
	if d = s.dataset(id); d == nil {
		return s.sendJSON(w, r, []byte("{}"))
	}
	return s.sendJSON(w, r, s.appendDataset(nil, d))
}

// changed lists the audit.
func (s *Server) changed(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(r.URL.RawQuery, measure.Time(time.Now().UnixNano()), []string{"from", "to"}, nil)
	if err != nil {
		return err
	}
	over, err := p.over(longest)
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
