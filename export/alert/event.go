package alert

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"culprit/diagnose"
	"culprit/measure"
)

// Format is the version of the JSON of changes, in webhooks and logs. A new member does not change
// it.
const Format = 1

// Sender describes who sends alerts.
type Sender struct {
	Instance string // the machine
	Version  string // of culprit
	Page     string // address of its page, without a token; "": unknown
}

// event is a change in the JSON of webhooks and logs.
type event struct {
	Format     int               `json:"format"`
	Time       measure.Time      `json:"time"`
	Instance   string            `json:"instance"`
	Change     Kind              `json:"change"`
	ID         string            `json:"id"`
	Rule       string            `json:"rule"`
	Severity   diagnose.Severity `json:"severity"`
	Culprit    diagnose.Culprit  `json:"culprit"`
	Confidence diagnose.Number   `json:"confidence"`
	Claim      string            `json:"claim"`
	Evidence   []string          `json:"evidence"`
	Caveats    []string          `json:"caveats"`
	Verify     string            `json:"verify"`
	Fix        *diagnose.Fix     `json:"fix"`
	eventTimes                   // as members of the event
}

// eventTimes are the times of an alert, and what it was before.
type eventTimes struct {
	Began  measure.Time  `json:"began"`
	Seen   measure.Time  `json:"last_seen"`
	Ended  *measure.Time `json:"ended"`  // null: it lasts
	Before *former       `json:"before"` // null unless severity or culprit changed
}

// former is what changed of an alert.
type former struct {
	Severity diagnose.Severity `json:"severity"`
	Culprit  diagnose.Culprit  `json:"culprit"`
}

// event returns a change as the sender's event.
func (s *Sender) event(c *Change) *event {
	a := &c.Alert
	e := &event{
		Format: Format, Time: c.At, Instance: s.Instance, Change: c.Kind, ID: a.Finding.ID,
		Rule: a.Finding.Rule, Severity: a.Severity, Culprit: a.Culprit,
		Confidence: a.Finding.Confidence, Claim: a.Finding.Claim, Evidence: evidence(&a.Finding),
		Caveats: append([]string{}, a.Finding.Against...), Verify: a.Finding.Verify,
		Fix: a.Finding.Fix, eventTimes: eventTimes{Began: a.Began, Seen: a.Seen},
	}
	if a.End != 0 {
		e.Ended = &a.End
	}
	if b := c.Before; b != nil {
		e.Before = &former{b.Severity, b.Culprit}
	}
	return e
}

// Log writes each change as one line of JSON until ctx ends. An error of the writer loses the line.
func (s *Stream) Log(ctx context.Context, w io.Writer, from *Sender) {
	for next := uint64(0); ; {
		changes, after, lost, wait := s.Since(next)
		next = after
		if lost > 0 {
			// The reader of the log may be gone: errors are ignored, here and below.
			_, _ = fmt.Fprintf(w, "culprit: %d changes of findings are not logged\n", lost)
		}
		for i := range changes {
			line, err := json.Marshal(from.event(&changes[i]))
			if err != nil {
				continue // a time beyond the year 9999
			}
			_, _ = w.Write(append(line, '\n'))
		}
		select {
		case <-ctx.Done():
			return
		case <-wait:
		}
	}
}
