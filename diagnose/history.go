package diagnose

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"culprit/measure"
)

// HistoryOver is the time that each diagnosis of a History is of: as long as `culprit` alone looks. The first comes no sooner.
const HistoryOver = 10 * measure.Second

// How often a running recording is diagnosed.
const (
	historyEvery = 10 * measure.Second // the least time between two
	historyShare = 1000                // a diagnosis may take a thousandth of a CPU: where one takes longer than 10 ms they come more seldom
	historyAgain = measure.Minute      // findings that last are written down this often
)

// historyKind is the kind of the documents in the log.
const historyKind = "diagnosis"

// Recording is what is diagnosed again and again: a reader, and when there is something new to read.
type Recording interface {
	measure.Reader
	// Tick waits for a tick later than after and gives its time; see dataset.Set.
	Tick(ctx context.Context, after measure.Time) (measure.Time, error)
}

// Log keeps documents by kind and time; see dataset.Archive.
type Log interface {
	// Log keeps a document.
	Log(kind string, at measure.Time, document []byte) error
	// Logged tells those of a time, oldest first, until each gives an error, which it returns.
	Logged(ctx context.Context, kind string, over measure.Interval, each func(at measure.Time, document []byte) error) error
}

// History diagnoses a recording as it goes on, and writes down what was found when it changes and each minute while it lasts. Safe for
// several goroutines.
type History struct {
	recording Recording
	log       Log
	rules     RuleSet
	cpu       func() measure.Span

	mu     sync.Mutex // guards all below
	at     measure.Time
	newest []byte
	told   chan struct{} // closed at the next diagnosis
	ended  error         // why there will be none
	cost   measure.Span  // CPU time of a diagnosis, lately
	spent  measure.Span  // of all of them
	fault  error         // why the newest could not be written down
}

// NewHistory makes the history of a recording. cpu gives the CPU time of the calling thread.
func NewHistory(r Recording, log Log, rules RuleSet, cpu func() measure.Span) *History {
	return &History{recording: r, log: log, rules: rules, cpu: cpu, told: make(chan struct{})}
}

// Run diagnoses until the context or the recording ends.
func (h *History) Run(ctx context.Context) {
	err := h.run(ctx)
	h.mu.Lock()
	h.ended = err
	close(h.told)
	h.mu.Unlock()
}

func (h *History) run(ctx context.Context) error {
	at, err := h.recording.Tick(ctx, 0)
	if err != nil {
		return err
	}
	var logged []string // what was found when it was written down last
	var when measure.Time
	for {
		// What was recorded before this run is another's: the first diagnosis has ten seconds of its own.
		if at, err = h.recording.Tick(ctx, at.Add(h.every()-1)); err != nil {
			return err
		}
		report, document, spent, err := h.look(ctx, at)
		if err != nil {
			return err
		}
		found := found(report)
		var fault error
		if when == 0 || !slices.Equal(found, logged) || len(found) > 0 && at.Sub(when) >= historyAgain {
			if fault = h.log.Log(historyKind, at, document); fault == nil {
				logged, when = found, at
			}
		}
		h.mu.Lock()
		h.at, h.newest, h.fault = at, document, fault
		h.spent += spent
		if h.cost == 0 {
			h.cost = spent
		}
		h.cost += (spent - h.cost) / 4
		close(h.told)
		h.told = make(chan struct{})
		h.mu.Unlock()
	}
}

// look diagnoses the time up to a tick, and says what that took.
func (h *History) look(ctx context.Context, at measure.Time) (*Report, []byte, measure.Span, error) {
	runtime.LockOSThread() // its CPU clock is read
	defer runtime.UnlockOSThread()
	before := h.cpu()
	report, err := Run(ctx, h.recording, h.rules, measure.Interval{Start: at.Add(-HistoryOver), End: at}, measure.Second)
	if err != nil {
		return nil, nil, 0, err
	}
	document, err := json.Marshal(report)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("write a report: %w", err)
	}
	return report, document, h.cpu() - before, nil
}

// found gives what is found as words that stay the same while it does.
func found(r *Report) []string {
	all := make([]string, len(r.Findings))
	for i, f := range r.Findings {
		all[i] = f.ID + " " + string(f.Severity)
	}
	slices.Sort(all)
	return all
}

// every gives the time between two diagnoses: whole seconds.
func (h *History) every() measure.Span {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(historyEvery, (h.cost*historyShare+measure.Second-1)/measure.Second*measure.Second)
}

// Cost gives the CPU time that a diagnosis takes, lately; 0 before the first.
func (h *History) Cost() measure.Span {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cost
}

// Spent gives the CPU time that all diagnoses have taken so far.
func (h *History) Spent() measure.Span {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.spent
}

// Trouble says why the newest diagnosis could not be written down; "" when it could, or need not.
func (h *History) Trouble() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault == nil {
		return ""
	}
	return "the newest diagnosis could not be recorded: " + h.fault.Error()
}

// Report waits for a diagnosis later than after, and gives the newest: its time and the JSON of its Report, not to be changed. At once
// when there is one. The error is the context's, or says that there will be none.
func (h *History) Report(ctx context.Context, after measure.Time) (measure.Time, []byte, error) {
	for {
		h.mu.Lock()
		at, newest, ended, told := h.at, h.newest, h.ended, h.told
		h.mu.Unlock()
		if at > after {
			return at, newest, nil
		}
		if ended != nil {
			return 0, nil, ended
		}
		select {
		case <-ctx.Done():
			return 0, nil, context.Cause(ctx)
		case <-told:
		}
	}
}

// Reports tells the diagnoses of a time that were written down, oldest first, until each gives an error, which it returns. The document is
// not kept.
func (h *History) Reports(ctx context.Context, over measure.Interval, each func(at measure.Time, document []byte) error) error {
	return h.log.Logged(ctx, historyKind, over, each)
}
