package diagnose

import (
	"context"
	"encoding/json"
	"slices"

	"culprit/measure"
)

// Past is what a recording knows of a finding from before the diagnosis.
type Past struct {
	// Since is the start of the first diagnosis of the run that has the finding. A run continues
	// while the finding comes and goes.
	Since Time `json:"since"`
	// AtLeast reports that nothing is known from before Since: the finding may be older.
	AtLeast bool `json:"at_least,omitempty"`
	// Share is the share of the diagnoses since Since that had it, 0..1.
	Share Number `json:"share"`
	// Seen is the end of the newest diagnosis that had it.
	Seen Time `json:"seen"`
	// Confirmed reports that enough diagnoses had it for a notice. It stays until the finding is
	// withdrawn.
	Confirmed bool `json:"confirmed"`
	// Returns is how often it came back after a diagnosis without it.
	Returns int `json:"returns"`
	// LastGood is the range without the finding before Since; null: none is known.
	LastGood *[2]Time `json:"last_good"`
	// Days is the number of the last seven days on which this hour was recorded, DaysFound those of
	// them on which the finding was there at this hour.
	Days      int `json:"days"`
	DaysFound int `json:"days_found"`
}

// Usual is the number of a query at the same hour of the days before. All values are in Unit.
type Usual struct {
	Unit   string `json:"unit"`
	Now    Number `json:"now"`    // mean over the range of the evidence
	Median Number `json:"median"` // of the means of the hour on the days before
	Spread Number `json:"spread"` // their robust standard deviation; null: fewer than three days
	// Days are the means at this hour one to seven days ago; null: not recorded.
	Days []Number `json:"days"`
	// Good is the mean in Past.LastGood, at most its last ten minutes; null: unknown.
	Good Number `json:"good"`

	least, most Number // of the minutes on the days: the greatest least and the least most
}

// known returns the days that were recorded.
func (u *Usual) known() (all []float64) {
	for _, v := range u.Days {
		if v.Known() {
			all = append(all, float64(v))
		}
	}
	return all
}

// Waits is the answer to the question whether anybody waits for what a finding takes.
type Waits struct {
	// Share is the part of the time in which something waits or fails, 0..1.
	Share Number `json:"share"`
	Text  string `json:"text"` // what waits, with numbers; "" when nothing does
}

// Nobody reports whether it was measured that nothing waits.
func (w *Waits) Nobody() bool { return w != nil && w.Share.Known() && w.Text == "" }

// logReader reads logged documents; see Log.
type logReader = interface {
	Logged(ctx context.Context, kind string, over measure.Interval,
		each func(at measure.Time, document []byte) error) error
}

// AddLogged sets Past of the findings of a report by the diagnoses that were logged in its range
// and shortly before. Findings that no logged diagnosis has stay without. The error is that of the
// context.
func AddLogged(ctx context.Context, log logReader, r *Report) error {
	wanted := map[string]int{}
	for i := range r.Findings {
		wanted[r.Findings[i].ID] = i
	}
	newest := map[string]*[]byte{} // the newest document of each
	over := measure.Interval{Start: r.Start.Add(-silentLog), End: r.End.Add(HistoryOver)}
	// A damaged log knows less.
	_ = log.Logged(ctx, historyKind, over, func(_ measure.Time, document []byte) error {
		var kept *[]byte
		idsIn(document, func(quoted []byte) {
			id := unquoted(quoted)
			if _, ok := wanted[id]; ok {
				if kept == nil {
					c := slices.Clone(document)
					kept = &c
				}
				newest[id] = kept
			}
		})
		return ctx.Err()
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	decoded := map[*[]byte]*Report{}
	for id, document := range newest {
		past := decoded[document]
		if past == nil {
			past = &Report{}
			if json.Unmarshal(*document, past) != nil {
				past = &Report{}
			}
			decoded[document] = past
		}
		for _, f := range append(slices.Clip(past.Findings), past.Held...) {
			if f.ID == id && f.Past != nil {
				r.Findings[wanted[id]].Past = f.Past
			}
		}
	}
	return nil
}
