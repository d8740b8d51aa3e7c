package alert

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"culprit/measure"
)

const (
	// resend is the time after which alerts that last are sent again, as Prometheus does.
	resend = time.Minute
	// expires is the time after which an Alertmanager ends an alert that is not sent again: four
	// times resend, as Prometheus does.
	expires = 4 * measure.Minute
	// maxBatch is the number of alerts of a request.
	maxBatch = 64
)

// Alertmanager sends alerts by Alertmanager's API: POST /api/v2/alerts. It has no queue: each
// request has all alerts that last, and those that ended in the last 15 minutes.
type Alertmanager struct{ *courier }

// NewAlertmanager returns the sender to an address; see receiver.Parse. The error is of the address
// or one of its files.
func NewAlertmanager(address string, s *Stream, from *Sender) (*Alertmanager, error) {
	c, err := newCourier("alertmanager", address, s, from)
	if err != nil {
		return nil, err
	}
	return &Alertmanager{c}, nil
}

// posted is an alert of Alertmanager's API, version 2: postableAlert.
type posted struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// Run sends alerts until ctx ends: when they change, and each minute while there are any.
func (m *Alertmanager) Run(ctx context.Context) {
	var sent []posted // that the Alertmanager has, without the times that a repetition moves
	var at time.Time
	for {
		state, next := m.stream.Now()
		due := m.alerts(&state)
		pause := resend
		if len(due) > 0 && (!slices.EqualFunc(due, sent, samePosted) || time.Since(at) >= resend) {
			err := m.send(ctx, due, state.At)
			if ctx.Err() != nil {
				return
			}
			m.setTrouble(err)
			if err != nil {
				pause, next = m.backoff.Next(err), nil
			} else {
				m.backoff.Reset()
				sent, at = due, time.Now()
			}
		} else if len(due) == 0 {
			sent = nil
			m.setTrouble(nil)
		} else {
			pause = max(time.Millisecond, resend-time.Since(at))
		}
		if !wait(ctx, pause, next) {
			return
		}
	}
}

// alerts returns all alerts of a state, those that last first.
func (m *Alertmanager) alerts(s *State) []posted {
	var all []posted
	for _, list := range [][]Alert{s.Active, s.Ended} {
		for i := range list {
			a := &list[i]
			p := posted{
				Labels: m.from.Labels(a), Annotations: a.Annotations(), StartsAt: a.Since.AsTime(),
				GeneratorURL: m.from.Page,
			}
			if a.End != 0 {
				p.EndsAt = a.End.AsTime()
			}
			all = append(all, p)
		}
	}
	return all
}

// samePosted reports whether two alerts have the same labels and are both at an end or not.
func samePosted(a, b posted) bool {
	return a.Labels["finding"] == b.Labels["finding"] &&
		a.Labels["severity"] == b.Labels["severity"] &&
		a.Labels["culprit"] == b.Labels["culprit"] && a.Labels["kind"] == b.Labels["kind"] &&
		a.EndsAt.Equal(b.EndsAt)
}

// send sends alerts, in requests of maxBatch. An alert that lasts expires if it is not sent again.
// A request that is rejected does not prevent those after it.
func (m *Alertmanager) send(ctx context.Context, all []posted, at measure.Time) error {
	var failed error
	for batch := range slices.Chunk(slices.Clone(all), maxBatch) {
		for i := range batch {
			if batch[i].EndsAt.IsZero() {
				batch[i].EndsAt = at.Add(expires).AsTime()
			}
		}
		body, err := json.Marshal(batch)
		if err == nil {
			err = m.target.Post(ctx, "/api/v2/alerts", body, m.header)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
