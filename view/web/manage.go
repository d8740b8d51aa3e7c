package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"culprit/measure"
)

// Kept is a dataset of a server with what there is of it and what it costs.
type Kept struct {
	measure.Dataset
	Held  measure.Holding
	Usage measure.Usage
}

// told is a dataset as the API has it.
type told struct {
	ID       uint32
	Sentence string
	Step     float64 `json:"step_ms"`
	Since    float64 `json:"since_ms"`
	State    string
	Maker    string
	Rows     int
	Rate     *float64 `json:"samples_per_s"`
	Samples  uint64
	Disk     int64 `json:"disk_bytes"`
	Memory   int64 `json:"memory_bytes"`
	CPU      *float64
	From     float64 `json:"from_ms"`
	To       float64 `json:"to_ms"`
	Loss     []measure.Loss
}

// known gives the number, NaN for null.
func known(v *float64) float64 {
	if v == nil {
		return measure.NaN
	}
	return *v
}

// ofMillis gives the moment of milliseconds since the epoch. Whole ones are exact.
func ofMillis(ms float64) measure.Time {
	whole := int64(ms)
	return measure.Time(whole*1e6 + int64((ms-float64(whole))*1e6))
}

// Datasets lists what the server records, by ID.
func (c *Client) Datasets(ctx context.Context) ([]Kept, error) {
	var list struct{ Datasets []told }
	if err := c.get(ctx, "api/datasets", "", func(b []byte) error { return json.Unmarshal(b, &list) }); err != nil {
		return nil, fmt.Errorf("list the server's datasets: %w", err)
	}
	var out []Kept
	for _, t := range list.Datasets {
		q, err := measure.ParseQuery(t.Sentence)
		if err != nil {
			return nil, fmt.Errorf("list the server's datasets: %w", err)
		}
		q.Step = measure.Span(ofMillis(t.Step))
		k := Kept{Dataset: measure.Dataset{ID: t.ID, Query: q, Stat: measure.Stat{ID: q.Stat}, Since: ofMillis(t.Since), State: named(measure.Recording, measure.Suspended, t.State), Maker: t.Maker},
			Held:  measure.Holding{Over: measure.Interval{Start: ofMillis(t.From), End: ofMillis(t.To)}, Disk: t.Disk, Memory: t.Memory, Samples: t.Samples, Rows: t.Rows, Loss: t.Loss},
			Usage: measure.Usage{CPU: known(t.CPU), Samples: known(t.Rate)}}
		for _, st := range c.stats {
			if st.ID == q.Stat {
				k.Stat = st
			}
		}
		out = append(out, k)
	}
	return out, nil
}

// Enable begins to record a sentence and gives the dataset's ID, as Machine.Enable.
func (c *Client) Enable(ctx context.Context, sentence string, step measure.Span) (uint32, error) {
	var made struct{ ID uint32 }
	err := c.post(ctx, "api/datasets", map[string]any{"sentence": sentence, "step_ms": json.Number(appendMillis(nil, int64(step)))}, &made)
	return made.ID, err
}

// Suspend stops a dataset's recording.
func (c *Client) Suspend(ctx context.Context, id uint32) error {
	return c.tell(ctx, id, "suspend", nil)
}

// Resume goes on with it.
func (c *Client) Resume(ctx context.Context, id uint32) error { return c.tell(ctx, id, "resume", nil) }

// Destroy forgets a dataset and all that it holds.
func (c *Client) Destroy(ctx context.Context, id uint32) error {
	return c.tell(ctx, id, "destroy", nil)
}

// Discard forgets what a dataset holds of a time.
func (c *Client) Discard(ctx context.Context, id uint32, over measure.Interval) error {
	return c.tell(ctx, id, "discard", map[string]any{"from_ms": json.Number(appendMillis(nil, int64(over.Start))), "to_ms": json.Number(appendMillis(nil, int64(over.End)))})
}

func (c *Client) tell(ctx context.Context, id uint32, action string, body any) error {
	if body == nil {
		body = struct{}{}
	}
	return c.post(ctx, "api/datasets/"+strconv.FormatUint(uint64(id), 10)+"/"+action, body, nil)
}

// Changes gives the audit over a time, oldest first.
func (c *Client) Changes(ctx context.Context, over measure.Interval) ([]measure.Change, error) {
	var list struct {
		Changes []struct {
			At       float64 `json:"at_ms"`
			Who      string
			What     string
			Dataset  uint32
			Sentence string
			From     float64 `json:"from_ms"`
			To       float64 `json:"to_ms"`
		}
	}
	v := url.Values{"from": {string(appendMillis(nil, int64(over.Start)))}, "to": {string(appendMillis(nil, int64(over.End)))}}
	if err := c.get(ctx, "api/changes?"+v.Encode(), "", func(b []byte) error { return json.Unmarshal(b, &list) }); err != nil {
		return nil, fmt.Errorf("list the server's changes: %w", err)
	}
	var out []measure.Change
	for _, t := range list.Changes {
		out = append(out, measure.Change{At: ofMillis(t.At), Who: t.Who, What: t.What, Dataset: t.Dataset, Sentence: t.Sentence,
			Over: measure.Interval{Start: ofMillis(t.From), End: ofMillis(t.To)}})
	}
	return out, nil
}

// post sends a changing request, and reads the answer into the given, which may be nil.
func (c *Client) post(ctx context.Context, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Culprit", "1")
	return c.do(r, func(b []byte) error {
		if into == nil {
			return nil
		}
		return json.Unmarshal(b, into)
	})
}
