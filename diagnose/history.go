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

// HistoryOver is the time range of each diagnosis of a History, the same as that of `culprit`. The
// first diagnosis comes after it.
const HistoryOver = 10 * measure.Second

// How often a running recording is diagnosed.
const (
	historyEvery = 10 * measure.Second // the least time between two
	// diagnoses may use a thousandth of a CPU: above 10 ms each they are less frequent
	historyShare = 1000
	// with a reader, five thousandths: less frequent above 50 ms
	historyShareRead = 200
	historyAgain     = measure.Minute // lasting findings are logged this often
	// a diagnosis reads the days before for two pieces of evidence; the next one reads others
	historyAsks = 3 * usualDays
)

// historyKind is the kind of the documents in the log.
const historyKind = "diagnosis"

// Recording is the source of repeated diagnoses: a reader, and its ticks.
type Recording interface {
	measure.Reader
	// Tick waits for a tick later than after and returns its time; see dataset.Set.
	Tick(ctx context.Context, after measure.Time) (measure.Time, error)
}

// Log stores documents by kind and time; see dataset.Archive.
type Log interface {
	// Log stores a document.
	Log(kind string, at measure.Time, document []byte) error
	// Logged calls each for the documents of a time range, oldest first. It stops at the first
	// error of each and returns it.
	Logged(ctx context.Context, kind string, over measure.Interval,
		each func(at measure.Time, document []byte) error) error
}

// History diagnoses a recording while it runs. It logs the findings when they change, and once per
// minute while they last. Where a diagnosis is expensive, and so less frequent, one that has a new
// finding is repeated after ten seconds, and the next one comes later by that time. Safe for
// several goroutines. While somebody reads each diagnosis (Attend), they are more frequent.
type History struct {
	recording Recording
	log       Log
	rules     RuleSet
	cpu       func() measure.Span
	holds     *holds    // of the goroutine of Run, like usual
	usual     *Baseline //

	mu     sync.Mutex // guards all fields below
	at     measure.Time
	newest []byte
	next   chan struct{} // closed at the next diagnosis
	ended  error         // why there will be no further diagnosis
	cost   measure.Span  // CPU time of a recent diagnosis
	spent  measure.Span  // CPU time of all of them
	fault  error         // why the newest could not be logged
	reads  int           // readers: those that Attend let in and that have not left
}

// NewHistory returns the history of a recording. cpu returns the CPU time of the calling thread.
func NewHistory(r Recording, log Log, rules RuleSet, cpu func() measure.Span) *History {
	usual := NewBaseline(r, log)
	usual.asks = historyAsks
	return &History{recording: r, log: log, rules: rules, cpu: cpu, next: make(chan struct{}),
		holds: newHolds(), usual: usual}
}

// Run diagnoses until the context or the recording ends.
func (h *History) Run(ctx context.Context) {
	err := h.run(ctx)
	h.mu.Lock()
	h.ended = err
	close(h.next)
	h.mu.Unlock()
}

func (h *History) run(ctx context.Context) error {
	at, err := h.recording.Tick(ctx, 0)
	if err != nil {
		return err
	}
	h.holds.restore(ctx, h.log, at)
	var logged []string // the findings that were logged last
	var when measure.Time
	var early measure.Span // time by which a diagnosis came early
	for {
		every := h.every(historyShare)
		wait := every + early
		if early = 0; h.holds.unconfirmed() && wait == every {
			wait, early = historyEvery, wait-historyEvery
		}
		// The first diagnosis covers ten seconds of this run: earlier ticks belong to another run.
		if at, err = h.wait(ctx, at, wait); err != nil {
			return err
		}
		report, document, spent, err := h.look(ctx, at)
		if err != nil {
			return err
		}
		found := found(report)
		var fault error
		if when == 0 || !slices.Equal(found, logged) || len(found) > 0 &&
			at.Sub(when) >= historyAgain {
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
		close(h.next)
		h.next = make(chan struct{})
		h.mu.Unlock()
	}
}

// wait waits until wait has passed since the diagnosis at a tick, or less with a reader. It returns
// the tick for the next one.
func (h *History) wait(ctx context.Context, since measure.Time, wait measure.Span) (
	at measure.Time, err error,
) {
	// A reader may come at any time.
	for least := min(wait, historyEvery); ; least += measure.Second {
		if at, err = h.recording.Tick(ctx, since.Add(least-1)); err != nil {
			return 0, err
		}
		if at.Sub(since) >= wait || h.attended() && at.Sub(since) >= h.every(historyShareRead) {
			return at, nil
		}
		least = max(least, at.Sub(since)/measure.Second*measure.Second)
	}
}

// Attend reports that somebody reads each diagnosis, until leave is called.
func (h *History) Attend() (leave func()) {
	add := func(n int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.reads += n
	}
	add(1)
	return sync.OnceFunc(func() { add(-1) })
}

func (h *History) attended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reads > 0
}

// look diagnoses the time range that ends at a tick. It returns the report, its JSON and the CPU
// time that the diagnosis used.
func (h *History) look(ctx context.Context, at measure.Time) (*Report, []byte, measure.Span,
	error) {
	runtime.LockOSThread() // its CPU clock is read
	defer runtime.UnlockOSThread()
	before := h.cpu()
	report, err := Run(ctx, h.recording, h.rules,
		measure.Interval{Start: at.Add(-HistoryOver), End: at}, measure.Second)
	if err != nil {
		return nil, nil, 0, err
	}
	h.holds.observe(report)
	if err := h.usual.Add(ctx, report); err != nil {
		return nil, nil, 0, err
	}
	h.holds.remember(report)
	document, err := json.Marshal(report)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("write a report: %w", err)
	}
	return report, document, h.cpu() - before, nil
}

// found returns the findings as sorted words: ID and severity. They stay equal while the findings
// last. Of a finding that has come back twice, its absence is no change.
func found(r *Report) []string {
	all := make([]string, 0, len(r.Findings)+len(r.Held))
	for _, f := range r.Findings {
		word := f.ID + " " + string(f.Severity)
		if f.Past != nil && !f.Past.Confirmed {
			word += " unconfirmed"
		}
		all = append(all, word)
	}
	for _, f := range r.Held {
		word := f.ID + " " + string(f.Severity)
		if f.Past.Returns < 2 {
			word += " held"
		}
		all = append(all, word)
	}
	slices.Sort(all)
	return all
}

// every returns the time between two diagnoses that may use 1/share of a CPU, in whole seconds.
func (h *History) every(share measure.Span) measure.Span {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(historyEvery, (h.cost*share+measure.Second-1)/measure.Second*measure.Second)
}

// Cost returns the CPU time of a recent diagnosis, smoothed; 0 before the first.
func (h *History) Cost() measure.Span {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cost
}

// Spent returns the CPU time of all diagnoses so far.
func (h *History) Spent() measure.Span {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.spent
}

// Trouble returns the reason why the newest diagnosis could not be logged; "" when it was, or need
// not be.
func (h *History) Trouble() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault == nil {
		return ""
	}
	return "the newest diagnosis could not be recorded: " + h.fault.Error()
}

// Report waits for a diagnosis later than after, and returns the time of the newest and the JSON of
// its Report, which must not be changed. It returns at once when there is one. The error is that of
// the context, or reports that the recording has ended.
func (h *History) Report(ctx context.Context, after measure.Time) (measure.Time, []byte, error) {
	for {
		h.mu.Lock()
		at, newest, ended, next := h.at, h.newest, h.ended, h.next
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
		case <-next:
		}
	}
}

// Newest returns the time of the newest diagnosis and the JSON of its Report, which must not be
// changed; 0 and nil before the first one.
func (h *History) Newest() (measure.Time, []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at, h.newest
}

// Reports calls each for the logged diagnoses of a time range, oldest first. It stops at the first
// error of each and returns it. The document is valid during the call only.
func (h *History) Reports(ctx context.Context, over measure.Interval,
	each func(at measure.Time, document []byte) error) error {
	return Reports(ctx, h.log, over, each)
}

// Reports calls each for the diagnoses in a log, as History.Reports. The error is that of each or
// of the log.
func Reports(
	ctx context.Context, log interface {
		Logged(ctx context.Context, kind string, over measure.Interval,
			each func(at measure.Time, document []byte) error) error
	}, over measure.Interval, each func(at measure.Time, document []byte) error,
) error {
	return log.Logged(ctx, historyKind, over, each)
}
