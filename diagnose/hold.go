package diagnose

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"culprit/measure"
)

// When a server reports findings, and when it withdraws them.
const (
	// ConfirmAfter is the number of diagnoses that must have a finding before it is confirmed.
	ConfirmAfter = 2
	// WithdrawAfter is how long a finding must be absent until it is withdrawn, and withdrawLooks
	// the diagnoses that must lack it. Each return of the finding doubles both the time, up to
	// withdrawLatest.
	WithdrawAfter  = measure.Minute
	withdrawLooks  = 3
	withdrawLatest = 10 * measure.Minute
	// keptHeld bounds the findings that are remembered.
	keptHeld = 500
	// silentLog is the longest time between two logged diagnoses of a server that has findings.
	silentLog = 3 * measure.Minute
)

// holds decides which findings last, over the diagnoses of a recording. It belongs to one
// goroutine.
type holds struct {
	all   map[string]*hold // by ID
	ended map[string]Time  // when a finding was withdrawn: the newest of an ID
	begun Time             // start of the first diagnosis
}

// hold is a finding while it lasts.
type hold struct {
	newest  Finding // without Past
	past    Past
	looks   int  // diagnoses since the first one that had it
	with    int  // those that had it
	missing int  // the newest in a row that lacked it
	covered bool // another finding explains it
}

func newHolds() *holds {
	return &holds{all: map[string]*hold{}, ended: map[string]Time{}}
}

// observe enters a diagnosis. It sets Past of its findings, and Held to the findings of earlier
// diagnoses that are not withdrawn.
func (h *holds) observe(r *Report) {
	first := h.begun == 0
	if first {
		h.begun = r.Start
	}
	present := map[string]bool{}
	for i := range r.Findings {
		f := &r.Findings[i]
		present[f.ID] = true
		h.seen(f, r, first)
		for _, s := range f.Symptoms {
			if o := h.all[s.ID]; o != nil && !present[s.ID] { // it is there, below another one
				present[s.ID] = true
				o.found(r.End)
				o.covered = true
			}
		}
	}
	unchecked := map[string]bool{}
	for _, m := range r.Missing {
		unchecked[m.Rule] = true
	}
	r.Held = []Finding{}
	for id, o := range h.all {
		switch {
		case present[id]:
		case o.absent(r.End, unchecked[o.newest.Rule]):
			delete(h.all, id)
			h.ended[id] = o.past.Seen
		case o.past.Confirmed && !o.covered:
			f := o.newest
			f.Past = o.snapshot()
			r.Held = append(r.Held, f)
		}
	}
	slices.SortFunc(r.Held, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.score(), a.score()), cmp.Compare(a.ID, b.ID))
	})
	for i := range r.Findings {
		if o := h.all[r.Findings[i].ID]; o != nil {
			r.Findings[i].Past = o.snapshot()
		}
	}
	if len(h.ended) > keptHeld {
		clear(h.ended) // only the start of a good range is lost
	}
}

// unconfirmed reports whether the newest diagnosis has a finding that is not confirmed.
func (h *holds) unconfirmed() bool {
	for _, o := range h.all {
		if !o.past.Confirmed && o.missing == 0 {
			return true
		}
	}
	return false
}

// seen enters a finding of a diagnosis.
func (h *holds) seen(f *Finding, r *Report, first bool) {
	o := h.all[f.ID]
	if o == nil {
		if len(h.all) >= keptHeld {
			return
		}
		o = &hold{newest: *f, past: Past{Since: r.Start, AtLeast: first}}
		good := max(h.begun, h.ended[f.ID])
		if !first && r.Start.Sub(good) >= measure.Minute {
			o.past.LastGood = &[2]Time{good, r.Start}
		}
		h.all[f.ID] = o
	}
	o.covered = false
	o.found(r.End)
}

// remember keeps the findings of a diagnosis as they are reported.
func (h *holds) remember(r *Report) {
	for _, f := range r.Findings {
		if o := h.all[f.ID]; o != nil {
			f.Past = nil
			o.newest = f
		}
	}
}

// found enters a diagnosis that has the finding.
func (o *hold) found(at Time) {
	if o.missing > 0 {
		o.past.Returns++
	}
	o.looks, o.with, o.missing = o.looks+1, o.with+1, 0
	o.past.Seen = at
	o.past.Confirmed = o.past.Confirmed || o.with >= ConfirmAfter
}

// absent enters a diagnosis without the finding and reports whether it is withdrawn. A rule that
// could not check does not count as one that found nothing.
func (o *hold) absent(at Time, unchecked bool) bool {
	if !unchecked {
		o.looks++
	}
	o.missing++
	wait := withdrawLatest
	if !unchecked && o.past.Returns < 4 {
		wait = min(WithdrawAfter<<o.past.Returns, withdrawLatest)
	}
	return o.missing >= withdrawLooks && at.Sub(o.past.Seen) >= wait
}

func (o *hold) snapshot() *Past {
	p := o.past
	p.Share = Number(float64(o.with) / float64(max(o.looks, 1)))
	return &p
}

// restore continues the holds of an earlier run of the server, if it ended shortly before at. What
// cannot be read is skipped.
func (h *holds) restore(ctx context.Context, log logReader, at Time) {
	var newest []byte
	_ = log.Logged(ctx, historyKind, measure.Interval{Start: at.Add(-silentLog), End: at},
		func(_ measure.Time, document []byte) error {
			newest = append(newest[:0], document...)
			return nil
		})
	var r Report
	if newest == nil || json.Unmarshal(newest, &r) != nil || r.Held == nil {
		return
	}
	h.begun = r.Start
	for _, f := range append(r.Findings, r.Held...) {
		if f.Past == nil || len(h.all) >= keptHeld {
			continue
		}
		o := &hold{newest: f, past: *f.Past, looks: 1, with: 1}
		if f.Past.Share > 0 && f.Past.Share <= 1 {
			span := r.End.Sub(f.Past.Since)
			o.looks = int(max(1, min(span/HistoryOver, 1<<20)))
			o.with = max(1, int(float64(o.looks)*float64(f.Past.Share)+0.5))
		}
		o.newest.Past = nil
		h.all[f.ID] = o
	}
}

// idMark precedes the ID of a finding in the JSON of a report.
const idMark = `"id":`

// idsIn calls each with the IDs in the JSON of a report, as JSON strings, without decoding it. IDs
// of symptoms are among them.
func idsIn(document []byte, each func(id []byte)) {
	mark := []byte(idMark)
	for {
		i := bytes.Index(document, mark)
		if i < 0 {
			return
		}
		document = document[i+len(idMark):]
		if end := quoted(document); end > 0 {
			each(document[:end])
			document = document[end:]
		}
	}
}

// unquoted returns the text of a JSON string; "" if it is none.
func unquoted(b []byte) (s string) {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b[1 : len(b)-1])
	}
	_ = json.Unmarshal(b, &s) // "" is no ID
	return s
}

// quoted returns the length of the JSON string with which b begins; 0: it begins with none.
func quoted(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}
