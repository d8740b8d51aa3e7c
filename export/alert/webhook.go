package alert

import (
	"context"
	"encoding/json"
	"time"

	"culprit/export/receiver"
	"culprit/measure"
)

const (
	// maxEvents is the number of changes of a request.
	maxEvents = 100
	// maxAge is the age of a change from which on it is no longer delivered.
	maxAge = 60 * measure.Minute
)

// Webhook sends each change as JSON by POST to an address. Changes wait while the server is away,
// for at most an hour. A change is sent again until the server has replied, so it may arrive twice.
type Webhook struct {
	*courier
	now func() measure.Time
}

// NewWebhook returns the sender to an address; see receiver.Parse. The error is of the address or
// one of its files.
func NewWebhook(address string, s *Stream, from *Sender) (*Webhook, error) {
	c, err := newCourier(webhookName, address, s, from)
	if err != nil {
		return nil, err
	}
	return &Webhook{c, func() measure.Time { return measure.Time(time.Now().UnixNano()) }}, nil
}

// delivery is the body of a request.
type delivery struct {
	Format   int      `json:"format"`
	Sender   string   `json:"sender"` // "culprit"
	Version  string   `json:"version"`
	Instance string   `json:"instance"`
	Page     string   `json:"page,omitempty"`
	Changes  []*event `json:"changes"` // oldest first, at least one
}

// Run sends changes until ctx ends.
func (w *Webhook) Run(ctx context.Context) {
	for next := uint64(0); ; {
		changes, _, lost, more := w.stream.Since(next)
		if lost > 0 {
			w.lose(lost)
			next += uint64(lost)
		}
		fresh, old := w.fresh(changes[:min(len(changes), maxEvents)])
		if old > 0 {
			w.lose(old)
			next += uint64(old)
		}
		if len(fresh) == 0 {
			if old == 0 && !wait(ctx, time.Hour, more) {
				return
			}
			continue
		}
		err := w.send(ctx, fresh)
		if ctx.Err() != nil {
			return
		}
		w.setTrouble(err)
		if err != nil && !receiver.IsFinal(err) {
			if !wait(ctx, w.backoff.Next(err), nil) {
				return
			}
			continue
		}
		w.backoff.Reset()
		if err != nil {
			w.lose(len(fresh))
		}
		next += uint64(len(fresh))
	}
}

// fresh returns the changes that are not too old, and the number of the others.
func (w *Webhook) fresh(changes []Change) (fresh []Change, old int) {
	for old < len(changes) && w.now().Sub(changes[old].At) > maxAge {
		old++
	}
	return changes[old:], old
}

func (w *Webhook) send(ctx context.Context, changes []Change) error {
	d := delivery{Format: Format, Sender: "culprit", Version: w.from.Version,
		Instance: w.from.Instance, Page: w.from.Page}
	for i := range changes {
		d.Changes = append(d.Changes, w.from.event(&changes[i]))
	}
	body, err := json.Marshal(&d)
	if err != nil { // never: all values can be written
		return &receiver.Rejection{Text: err.Error()}
	}
	return w.target.Post(ctx, "", body, w.header)
}
