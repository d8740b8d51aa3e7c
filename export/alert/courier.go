package alert

import (
	"context"
	"fmt"
	"sync"
	"time"

	"culprit/export/receiver"
)

const (
	requestTimeout = 10 * time.Second
	// The wait between two attempts doubles from minWait to maxWait.
	minWait, maxWait = time.Second, time.Minute
	// lossShown is how long Trouble reports changes that were not delivered.
	lossShown = 10 * time.Minute
)

// courier is what senders share: a target, the wait after a failure, and the current problem.
type courier struct {
	what    string // of what it notifies, for Trouble: "alertmanager"
	target  *receiver.Target
	stream  *Stream
	from    *Sender
	backoff receiver.Backoff
	header  map[string][]string

	mu      sync.Mutex // guards the fields below
	trouble string
	lost    int       // changes that were not delivered
	lostAt  time.Time // when the newest of them was given up
}

// newCourier returns a courier to an address. The error is that of receiver.Parse.
func newCourier(what, address string, s *Stream, from *Sender) (*courier, error) {
	t, err := receiver.Parse(address, requestTimeout)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return &courier{
		what: what, target: t, stream: s, from: from,
		backoff: receiver.Backoff{Min: minWait, Max: maxWait},
		header: map[string][]string{
			"Content-Type": {"application/json"}, "User-Agent": {"culprit/" + from.Version},
		},
	}, nil
}

// Key identifies the courier among all: what it notifies, and its address. The path of a webhook is
// left out, since it is often a secret.
func (c *courier) Key() string {
	if c.what == webhookName {
		return c.what + " " + c.target.Origin()
	}
	return c.what + " " + c.target.String()
}

// webhookName is what a webhook is called in messages.
const webhookName = "webhook"

// Trouble returns the current problem, "" for none.
func (c *courier) Trouble() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.trouble != "":
		return c.Key() + ": " + c.trouble
	case c.lost > 0 && time.Since(c.lostAt) < lossShown:
		return fmt.Sprintf("%s: %d changes of findings were not delivered", c.Key(), c.lost)
	}
	return ""
}

// setTrouble sets the current problem by an error; nil clears it.
func (c *courier) setTrouble(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trouble = ""; err != nil {
		c.trouble = err.Error()
	}
}

// lose counts changes that are not delivered.
func (c *courier) lose(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost += n
	c.lostAt = time.Now()
}

// wait waits for d or until wake is closed. It returns false when ctx has ended.
func wait(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case <-wake:
	}
	return ctx.Err() == nil
}
