package alert

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"culprit/diagnose"
	"culprit/measure"
)

const (
	// Hold is how long a lower severity or another culprit must last until the alert has it. A
	// higher severity counts at once. In diagnoses that nobody follows it is also how long a
	// finding must be absent until its alert ends; otherwise the server decides when a finding is
	// confirmed and withdrawn: see diagnose.Report.Held.
	Hold = diagnose.WithdrawAfter
	// unknownHold replaces Hold while the rule of the finding could not be checked.
	unknownHold = 10 * measure.Minute
	// keepEnded is how long ended alerts are kept: a receiver that was away is notified late.
	keepEnded = 15 * measure.Minute
	// restored is the time range of earlier diagnoses from which a new stream begins.
	restored = 15 * measure.Minute
)

// Limits of a stream. Findings beyond maxActive are counted, and not alerts.
const (
	maxActive  = 200
	maxEnded   = 400
	maxChanges = 1000
)

// Kind is what happened to an alert.
type Kind string

// The kinds of changes. Changed: another severity or culprit.
const (
	Appeared Kind = "appeared"
	Changed  Kind = "changed"
	Ended    Kind = "ended"
)

// An Alert is a finding while it lasts.
type Alert struct {
	Finding  diagnose.Finding // the newest, within the limits of text.go
	Severity diagnose.Severity
	Culprit  diagnose.Culprit
	Began    measure.Time // of the finding: see diagnose.Past.Since
	Since    measure.Time // first diagnosis with this severity and culprit
	Seen     measure.Time // newest diagnosis with the finding
	End      measure.Time // 0: it lasts

	confirmed measure.Time // newest diagnosis with this severity or a higher one, and this culprit
}

// A Change is one change of an alert.
type Change struct {
	Kind   Kind
	At     measure.Time
	Alert  Alert
	Before *Alert // of Changed: the alert until now; nil otherwise
}

// Stream is the alerts of a recording, and their changes. Safe for several goroutines.
type Stream struct {
	cpu func() measure.Span // CPU time of the calling thread

	mu      sync.Mutex // guards all fields below
	at      measure.Time
	rules   map[string]string // why a rule could not be checked in the newest diagnosis
	active  map[string]*Alert // by ID of the finding
	ended   []Alert           // oldest first
	changes []Change          // the newest, oldest first
	first   uint64            // number of changes[0]
	next    chan struct{}     // closed at the next diagnosis
	beyond  int               // findings beyond maxActive in the newest diagnosis
	fault   string            // why the newest diagnosis could not be read
	spent   measure.Span

	restoring bool // changes are not kept
}

// NewStream returns a stream without alerts. cpu returns the CPU time of the calling thread.
func NewStream(cpu func() measure.Span) *Stream {
	return &Stream{cpu: cpu, active: map[string]*Alert{}, next: make(chan struct{})}
}

// Diagnoses is the source of a stream; see diagnose.History.
type Diagnoses interface {
	// Report waits for a diagnosis later than after, and returns its time and its JSON.
	Report(ctx context.Context, after measure.Time) (measure.Time, []byte, error)
	// Reports calls each for the logged diagnoses of a time range, oldest first. A diagnosis is
	// logged when its findings differ from those before, and at least once a minute while there
	// are any.
	Reports(ctx context.Context, over measure.Interval,
		each func(at measure.Time, document []byte) error) error
}

// Run follows diagnoses until the context or they end. It begins with those that were logged before
// now: what lasts since before a restart is no new alert.
func (s *Stream) Run(ctx context.Context, d Diagnoses, now measure.Time) {
	s.restore(ctx, d, now)
	for at := measure.Time(0); ; {
		next, document, err := d.Report(ctx, at)
		if err != nil {
			return
		}
		at = next
		s.metered(func() { s.read(at, document) })
	}
}

// restore sets the alerts by what was logged before now, without changes. What can't be read is
// skipped: the next diagnosis reports what lasts.
func (s *Stream) restore(ctx context.Context, d Diagnoses, now measure.Time) {
	s.setRestoring(true)
	defer s.setRestoring(false)
	var last *diagnose.Report
	over := measure.Interval{Start: now.Add(-restored), End: now}
	_ = d.Reports(ctx, over, func(at measure.Time, document []byte) error {
		var r diagnose.Report
		if json.Unmarshal(document, &r) != nil {
			return nil
		}
		// Until a document is logged, the findings are those of the one before.
		if last != nil && at.Sub(last.End) <= Hold+2*diagnose.HistoryOver {
			s.Observe(at-1, last)
		}
		s.Observe(at, &r)
		last = &r
		return ctx.Err()
	})
}

func (s *Stream) setRestoring(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restoring = on
}

// read observes a diagnosis in JSON.
func (s *Stream) read(at measure.Time, document []byte) {
	var r diagnose.Report
	err := json.Unmarshal(document, &r)
	if err == nil {
		s.Observe(at, &r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault = ""; err != nil {
		s.fault = "the newest diagnosis could not be read: " + err.Error()
	}
}

// metered adds the CPU time of f to Spent.
func (s *Stream) metered(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := s.cpu()
	f()
	after := s.cpu()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent += after - before
}

// Spent returns the CPU time of following diagnoses.
func (s *Stream) Spent() measure.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spent
}

// Trouble returns why there are not all alerts; "": there are.
func (s *Stream) Trouble() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == "" && s.beyond > 0 {
		return fmt.Sprintf("%d findings are not sent: there are more than %d", s.beyond, maxActive)
	}
	return s.fault
}

// Observe compares a diagnosis with the alerts, and notifies those who wait for changes. at must be
// later than that of the call before; otherwise nothing happens.
func (s *Stream) Observe(at measure.Time, r *diagnose.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at <= s.at {
		return
	}
	s.at, s.beyond = at, 0
	s.rules = map[string]string{}
	for _, m := range r.Missing {
		s.rules[m.Rule] = m.Why
	}
	var fresh []diagnose.Finding
	for i := range r.Findings {
		f := bounded(&r.Findings[i])
		if a := s.active[f.ID]; a != nil {
			s.seen(a, f)
		} else if f.Past == nil || f.Past.Confirmed {
			fresh = append(fresh, f)
		}
	}
	s.endAbsent(at, r.Held)
	for _, f := range fresh {
		if s.active[f.ID] != nil { // twice in one diagnosis
			continue
		}
		if len(s.active) >= maxActive {
			s.beyond++
			continue
		}
		a := &Alert{Finding: f, Severity: f.Severity, Culprit: f.Culprit, Began: at, Since: at,
			Seen: at, confirmed: at}
		if f.Past != nil && f.Past.Since < at {
			a.Began = f.Past.Since
		}
		s.active[f.ID] = a
		s.add(Change{Kind: Appeared, At: at, Alert: *a})
		s.revive(a)
	}
	s.ended = slices.DeleteFunc(s.ended, func(a Alert) bool { return at.Sub(a.End) > keepEnded })
	s.ended = s.ended[max(0, len(s.ended)-maxEnded):]
	close(s.next)
	s.next = make(chan struct{})
}

// seen updates an alert by its newest finding.
func (s *Stream) seen(a *Alert, f diagnose.Finding) {
	a.Seen = s.at
	same := f.Culprit.Kind == a.Culprit.Kind && f.Culprit.Name == a.Culprit.Name
	higher := rank(f.Severity) - rank(a.Severity)
	if same && higher == 0 || same && higher < 0 && s.at.Sub(a.confirmed) < Hold {
		if higher == 0 {
			a.confirmed = s.at
		}
		a.Finding = f
		return
	}
	if higher <= 0 && s.at.Sub(a.confirmed) < Hold { // another culprit; the texts stay its own
		return
	}
	before := *a
	before.End = s.at
	s.ended = append(s.ended, before)
	a.Finding, a.Severity, a.Culprit = f, f.Severity, f.Culprit
	a.Since, a.confirmed = s.at, s.at
	before.End = 0
	s.add(Change{Kind: Changed, At: s.at, Alert: *a, Before: &before})
	s.revive(a)
}

// revive deletes ended alerts with the labels of an alert that lasts.
func (s *Stream) revive(a *Alert) {
	s.ended = slices.DeleteFunc(s.ended, func(e Alert) bool { return e.key() == a.key() })
}

// key identifies the labels of an alert.
func (a *Alert) key() [4]string {
	return [4]string{a.Finding.ID, string(a.Severity), a.Culprit.Kind, a.Culprit.Name}
}

// endAbsent ends the alerts whose findings are withdrawn: those that are neither found nor held. If
// held is nil nobody follows the diagnoses, and the findings must be absent for long enough.
func (s *Stream) endAbsent(at measure.Time, held []diagnose.Finding) {
	for _, a := range s.sorted() {
		hold := Hold
		if _, unknown := s.rules[a.Finding.Rule]; unknown {
			hold = unknownHold
		}
		if held != nil {
			hold = 1
		}
		if at.Sub(a.Seen) < hold || slices.ContainsFunc(held, func(f diagnose.Finding) bool {
			return f.ID == a.Finding.ID
		}) {
			continue
		}
		delete(s.active, a.Finding.ID)
		a.End = at
		s.ended = append(s.ended, *a)
		s.add(Change{Kind: Ended, At: at, Alert: *a})
	}
}

// add appends a change, and drops the oldest beyond maxChanges.
func (s *Stream) add(c Change) {
	if s.restoring {
		return
	}
	s.changes = append(s.changes, c)
	if n := len(s.changes) - maxChanges; n > 0 {
		s.changes, s.first = slices.Delete(s.changes, 0, n), s.first+uint64(n)
	}
}

// rank orders severities; higher is more severe.
func rank(s diagnose.Severity) int {
	return map[diagnose.Severity]int{diagnose.Low: 1, diagnose.Medium: 2, diagnose.High: 3}[s]
}

// sorted returns the active alerts, the most severe first, then by ID.
func (s *Stream) sorted() []*Alert {
	var all []*Alert
	for _, a := range s.active {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *Alert) int {
		return cmp.Or(rank(b.Severity)-rank(a.Severity), cmp.Compare(a.Finding.ID, b.Finding.ID))
	})
	return all
}

// State is the alerts at one moment.
type State struct {
	At     measure.Time      // of the newest diagnosis; 0: there was none
	Active []Alert           // the most severe first
	Ended  []Alert           // of the last keepEnded
	Rules  map[string]string // rules that could not be checked, and why
}

// Now returns the alerts, and a channel that is closed at the next diagnosis.
func (s *Stream) Now() (State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := State{At: s.at, Ended: slices.Clone(s.ended), Rules: s.rules}
	for _, a := range s.sorted() {
		now.Active = append(now.Active, *a)
	}
	return now, s.next
}

// Since returns the changes from number from on, the number of the next one, how many are no longer
// kept, and a channel that is closed at the next diagnosis.
func (s *Stream) Since(from uint64) (all []Change, next uint64, lost int, wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = s.first + uint64(len(s.changes))
	if from < s.first {
		lost, from = int(s.first-from), s.first
	}
	return slices.Clone(s.changes[from-s.first:]), next, lost, s.next
}
