package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"culprit/measure"
)

// Dataset is a dataset of the server, with what it holds and what it costs.
type Dataset struct {
	measure.Dataset
	Held  measure.Stored
	Usage measure.Usage
}

// datasetJSON is a dataset in a reply.
type datasetJSON struct {
	ID      uint32
	Query   string  `json:"sentence"`
	Step    float64 `json:"step_ms"`
	Since   float64 `json:"since_ms"`
	State   string
	Maker   string
	Rows    int
	Rate    *float64 `json:"samples_per_s"`
	Samples uint64
	Disk    int64 `json:"disk_bytes"`
	Memory  int64 `json:"memory_bytes"`
	CPU     *float64
	From    float64 `json:"from_ms"`
	To      float64 `json:"to_ms"`
	Loss    []measure.Loss
}

// orNaN returns the number, NaN for null.
func orNaN(v *float64) float64 {
	if v == nil {
		return measure.NaN
	}
	return *v
}

// parseTime returns the time of milliseconds since the epoch. Whole ones are exact.
func parseTime(ms float64) measure.Time {
	whole := int64(ms)
	return measure.Time(whole*1e6 + int64((ms-float64(whole))*1e6))
}

// dataset decodes a dataset of a reply. Its statistic is complete if the catalogue has it.
func (c *Client) dataset(j *datasetJSON) (Dataset, error) {
	q, err := measure.ParseQuery(j.Query)
	if err != nil {
		return Dataset{}, err
	}
	q.Step = measure.Span(parseTime(j.Step))
	d := Dataset{
		Dataset: measure.Dataset{
			ID: j.ID, Query: q, Stat: measure.Stat{ID: q.Stat}, Created: parseTime(j.Since),
			State: parseEnum(measure.Recording, measure.Suspended, j.State), Creator: j.Maker,
		},
		Held: measure.Stored{
			Over: measure.Interval{Start: parseTime(j.From), End: parseTime(j.To)},
			Disk: j.Disk, Memory: j.Memory, Samples: j.Samples, Rows: j.Rows, Loss: j.Loss,
		},
		Usage: measure.Usage{CPU: orNaN(j.CPU), Samples: orNaN(j.Rate)},
	}
	for _, st := range c.stats {
		if st.ID == q.Stat {
			d.Stat = st
		}
	}
	return d, nil
}

// Datasets lists the datasets of the server, by ID. See Client for errors.
func (c *Client) Datasets(ctx context.Context) ([]Dataset, error) {
	var list struct{ Datasets []datasetJSON }
	if err := c.get(ctx, "api/datasets", &list); err != nil {
		return nil, fmt.Errorf("list the server's datasets: %w", err)
	}
	var out []Dataset
	for i := range list.Datasets {
		d, err := c.dataset(&list.Datasets[i])
		if err != nil {
			return nil, fmt.Errorf("list the server's datasets: %w", err)
		}
		out = append(out, d)
	}
	return out, nil
}

// Enable starts to record a query, one value per step, and returns the dataset's ID. If a dataset
// covers the query already, its ID is returned. The error is a *measure.Diagnostic if the query is
// wrong; another error says why the server refuses it.
func (c *Client) Enable(ctx context.Context, query string, step measure.Span) (uint32, error) {
	var made struct{ ID uint32 }
	body := map[string]any{"sentence": query, "step_ms": json.Number(millis(int64(step)))}
	err := c.post(ctx, "api/datasets", body, &made)
	return made.ID, err
}

// Suspend stops the recording of a dataset. What it holds stays. See Client for errors.
func (c *Client) Suspend(ctx context.Context, id uint32) error {
	return c.change(ctx, id, "suspend", struct{}{})
}

// Resume continues the recording of a dataset. See Client for errors.
func (c *Client) Resume(ctx context.Context, id uint32) error {
	return c.change(ctx, id, "resume", struct{}{})
}

// Destroy deletes a dataset and all that it holds. See Client for errors.
func (c *Client) Destroy(ctx context.Context, id uint32) error {
	return c.change(ctx, id, "destroy", struct{}{})
}

// Discard deletes what a dataset holds in a time range. See Client for errors.
func (c *Client) Discard(ctx context.Context, id uint32, over measure.Interval) error {
	return c.change(ctx, id, "discard", map[string]any{
		"from_ms": json.Number(millis(int64(over.Start))),
		"to_ms":   json.Number(millis(int64(over.End))),
	})
}

func (c *Client) change(ctx context.Context, id uint32, action string, body any) error {
	path := "api/datasets/" + strconv.FormatUint(uint64(id), 10) + "/" + action
	return c.post(ctx, path, body, nil)
}

// changeJSON is an entry of the audit log in a reply.
type changeJSON struct {
	At      float64 `json:"at_ms"`
	Who     string
	What    string
	Dataset uint32
	Query   string  `json:"sentence"`
	From    float64 `json:"from_ms"`
	To      float64 `json:"to_ms"`
}

// Changes returns the audit log of a time range, oldest entry first. See Client for errors.
func (c *Client) Changes(ctx context.Context, over measure.Interval) ([]measure.Change, error) {
	var list struct{ Changes []changeJSON }
	v := url.Values{"from": {millis(int64(over.Start))}, "to": {millis(int64(over.End))}}
	if err := c.get(ctx, "api/changes?"+v.Encode(), &list); err != nil {
		return nil, fmt.Errorf("list the server's changes: %w", err)
	}
	var out []measure.Change
	for _, j := range list.Changes {
		out = append(out, measure.Change{
			At: parseTime(j.At), Actor: j.Who, Action: j.What, Dataset: j.Dataset, Query: j.Query,
			Over: measure.Interval{Start: parseTime(j.From), End: parseTime(j.To)},
		})
	}
	return out, nil
}
