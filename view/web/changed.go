package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"culprit/changes"
	"culprit/measure"
	"culprit/view"
	"culprit/view/web/api"
)

// changed ranks the statistics by how much they differ between two times: see changes.Find. Without
// a time to compare with, that is the equally long time before. To a client that accepts events it
// sends what was found so far.
func (s *queries) changed(w http.ResponseWriter, r *http.Request) error {
	known := []string{"from", "to", "against_from", "against_to"}
	p, err := parametersOf(r.URL.RawQuery, s.now(), known, nil)
	if err != nil {
		return err
	}
	before, after, err := p.sides()
	if err != nil {
		return err
	}
	ctx, release, err := s.acquireComparison(r.Context())
	if err != nil {
		return err
	}
	defer release()
	stats, held := s.held()
	reader := &pacedReader{core: s.core, cpu: processTime}
	side := func(over measure.Interval) *changes.Side {
		return &changes.Side{Reader: reader, Stats: stats, Over: over, Fine: measure.Second}
	}
	var parts *changeParts
	progress := func(*changes.Progress) {}
	if accepts(r.Header.Get("Accept"), "text/event-stream") {
		parts = newChangeParts(w)
		progress = parts.send
	}
	found, err := changes.FindStepwise(ctx, side(before), side(after), progress)
	if errors.Is(err, changes.ErrNothing) {
		f := &fault{status: http.StatusNotFound, Code: "unclear", Message: err.Error()}
		if held.Start != 0 {
			f.Hint = fmt.Sprintf("recorded is %s to %s", zulu(held.Start), zulu(held.End))
		}
		err = f
	}
	switch {
	case err != nil && (parts == nil || !parts.begun):
		return err
	case err != nil:
		parts.event("error", append(faultOf(err).appendJSON([]byte(`{"error":`)), '}'))
		return nil
	case parts != nil:
		parts.event("report", appendChanges(nil, found))
		return nil
	}
	return s.sendJSON(w, r, appendChanges(nil, found))
}

// partInterval is the time between two parts of a comparison.
const partInterval = 500 * time.Millisecond

// changeParts sends a comparison as Server-Sent Events: parts, then the report or an error.
type changeParts struct {
	w     http.ResponseWriter
	last  time.Time // when the last part was sent, or the comparison began
	begun bool      // the reply has begun: its status is 200
}

func newChangeParts(w http.ResponseWriter) *changeParts {
	return &changeParts{w: w, last: time.Now()}
}

// send sends what was found so far, unless a part was sent shortly before.
func (c *changeParts) send(p *changes.Progress) {
	if time.Since(c.last) < partInterval {
		return
	}
	b := strconv.AppendInt([]byte(`{"read":`), int64(p.Read), 10)
	b = strconv.AppendInt(append(b, `,"of":`...), int64(p.Of), 10)
	b = appendChanges(append(b, `,"report":`...), p.Report())
	c.event("part", append(b, '}'))
	c.last = time.Now()
}

// event sends one event. Errors are left to the context of the request: the client is gone.
func (c *changeParts) event(name string, data []byte) {
	if !c.begun {
		c.begun = true
		h := c.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("Vary", "Accept")
		h.Set("X-Accel-Buffering", "no") // or nginx would delay events
	}
	text := append([]byte("event: "+name+"\ndata: "), data...)
	_, _ = c.w.Write(append(text, "\n\n"...))
	_ = http.NewResponseController(c.w).Flush()
}

// sides returns the two times, as whole seconds: those of ticks.
func (p *parameters) sides() (before, after measure.Interval, err error) {
	if p.text("from") == "" {
		f := badRequest("which time?")
		f.Hint = "from=-5m"
		return before, after, f
	}
	if after, err = p.over(0); err != nil {
		return before, after, err
	}
	second := measure.Time(measure.Second)
	after.Start, after.End = after.Start-after.Start%second, after.End-after.End%second
	least := changes.MinCells * measure.Second
	if after.Span() < least {
		return before, after, badRequest("%v is too short: give %v or more", after.Span(), least)
	}
	if before.End, err = p.time("against_to", after.Start); err != nil {
		return before, after, err
	}
	before.Start, err = p.time("against_from", max(before.End.Add(-after.Span()), firstTime))
	if err != nil {
		return before, after, err
	}
	before.Start, before.End = before.Start-before.Start%second, before.End-before.End%second
	if before.Span() < least {
		return before, after, badRequest(
			"the time to compare with is too short: give %v or more", least,
		)
	}
	return before, after, nil
}

// held returns the recorded statistics, each once, and the time of which something is recorded;
// zero if nothing is.
func (c *core) held() (stats []measure.Stat, over measure.Interval) {
	has := map[measure.StatID]bool{}
	for _, d := range c.Machine.Datasets() {
		if !has[d.Stat.ID] {
			has[d.Stat.ID] = true
			stats = append(stats, d.Stat)
		}
		of := c.Machine.Held(d.ID).Over
		if of.Start == 0 {
			continue
		}
		if over.Start == 0 || of.Start < over.Start {
			over.Start = of.Start
		}
		over.End = max(over.End, of.End)
	}
	return stats, over
}

// zulu formats a time in UTC, to the second.
func zulu(t measure.Time) string { return t.AsTime().UTC().Format(time.RFC3339) }

// appendChanges appends a comparison as JSON. docs/openapi.yaml describes it.
func appendChanges(b []byte, r *changes.Report) []byte {
	b = appendSpan(append(b, `{"before":`...), &r.Before)
	b = appendSpan(append(b, `,"after":`...), &r.After)
	b = strconv.AppendInt(append(b, `,"compared":`...), int64(r.Compared), 10)
	b = append(b, `,"changes":[`...)
	for i := range r.Changes {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendChange(b, &r.Changes[i])
	}
	b = appendStrings(append(b, `],"notes":`...), r.Notes)
	return append(b, '}')
}

func appendSpan(b []byte, r *changes.Range) []byte {
	b = api.AppendMillis(append(b, `{"start_ms":`...), int64(r.Start))
	b = api.AppendMillis(append(b, `,"end_ms":`...), int64(r.End))
	return append(b, '}')
}

func appendChange(b []byte, c *changes.Change) []byte {
	b = view.AppendString(append(b, `{"statistic":`...), c.Statistic)
	b = view.AppendString(append(b, `,"query":`...), c.Query)
	b = view.AppendString(append(b, `,"function":`...), c.Function)
	b = view.AppendString(append(b, `,"unit":`...), c.Unit)
	b = view.AppendNumber(append(b, `,"before":`...), c.Before)
	b = view.AppendNumber(append(b, `,"after":`...), c.After)
	b = view.AppendNumber(append(b, `,"deviations":`...), c.Deviations)
	b = view.AppendNumber(append(b, `,"score":`...), c.Score)
	b = append(b, `,"explains":[`...)
	for i, v := range c.Explains {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(append(b, `{"field":`...), v.Field)
		b = view.AppendString(append(b, `,"value":`...), v.Value)
		b = view.AppendNumber(append(b, `,"share":`...), v.Share)
		b = append(b, '}')
	}
	b = appendStrings(append(b, `],"with":`...), c.With)
	return append(b, '}')
}
