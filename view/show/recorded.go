package show

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"culprit/measure"
)

// Recorded is the recording of a machine, at a running server or in its archive.
type Recorded interface {
	// Held returns the recorded time range; zero if nothing is recorded.
	Held() measure.Interval
	// Remark describes the source of the data in one sentence; "" for a running server.
	Remark() string
	// Trouble lists the parts that can't be read, and the problems of the server, a sentence each.
	Trouble() []string
	// Replay returns the machine of a time range. netns is as in MachineOptions.
	Replay(over measure.Interval, netns string) Machine
	// Findings calls each for the logged diagnoses of a time range, oldest first, until each
	// returns an error, which it returns. A document is the JSON of a diagnose.Report, valid during
	// the call.
	Findings(
		ctx context.Context, over measure.Interval,
		each func(at measure.Time, document []byte) error,
	) error
	// Close closes it. No other method may be called afterwards.
	Close() error
}

// Sent is a Recorded that the servers of hosts sent to an engine.
type Sent interface {
	Recorded
	// Host returns the name of the host in the engine.
	Host() string
	// Step returns the time between two samples.
	Step() measure.Span
	// MaxAge returns the maximum age of the newest tick of a host that is sending.
	MaxAge() measure.Span
}

// ageOf returns the maximum age of the newest tick while a recording is running.
func ageOf(r Recorded) measure.Span {
	if s, ok := r.(Sent); ok {
		return s.MaxAge()
	}
	return maxTickAge
}

// Replay is a machine in a recorded time range.
type Replay struct {
	Machine
	TimeRange
	Recorded Recorded
	Fine     measure.Span // the time between two recorded ticks

	netns string // as in MachineOptions
}

// Close closes the recording.
func (r *Replay) Close() { _ = r.Recorded.Close() }

// OpenReplay returns the recording r in a time range. With At alone, the range ends then and is as
// long as span. netns is a network namespace: "" is the server's own, "all" is every one. The
// caller must close the result; after an error, r is closed.
func OpenReplay(
	r Recorded, s TimeRange, netns string, span measure.Span, now time.Time,
) (*Replay, error) {
	if err := s.Within(r.Held(), r.Remark(), ageOf(r), now); err != nil {
		if t := r.Trouble(); len(t) > 0 {
			err = fmt.Errorf("%w; %s", err, firstOf(t))
		}
		_ = r.Close()
		return nil, err
	}
	if s.Over.Start == 0 {
		s.Over.Start = s.Over.End.Add(-span)
	}
	if end := s.Over.End.AsTime().Local(); len(s.Notes) == 0 &&
		end.Format(time.DateOnly) != now.Local().Format(time.DateOnly) {
		s.Notes = append(s.Notes, "this is of "+FormatTime(s.Over.End))
	}
	fine := RecordedStep
	if e, ok := r.(Sent); ok {
		fine = e.Step()
		s.Notes = append(
			s.Notes, "this is of host "+e.Host()+", as its server sent it to the engine",
		)
	}
	if r.Remark() != "" {
		s.Notes = append(s.Notes, r.Remark())
	}
	if t := r.Trouble(); len(t) > 0 {
		s.Notes = append(s.Notes, firstOf(t))
	}
	if err := checkNetns(r, s.Over, netns); err != nil {
		_ = r.Close()
		return nil, err
	}
	return &Replay{r.Replay(s.Over, netns), s, r, fine, netns}, nil
}

// firstOf returns the first of some messages, and the number of the others.
func firstOf(all []string) string {
	if len(all) == 1 {
		return all[0]
	}
	return fmt.Sprintf("%s (and %d more)", all[0], len(all)-1)
}

// checkNetns fails if the network namespace did not exist in the time range.
func checkNetns(r Recorded, over measure.Interval, name string) error {
	if name == "" || name == "all" {
		return nil
	}
	m := r.Replay(over, "all")
	q, err := m.Parse("net.device.info by netns")
	if err != nil {
		return err
	}
	var names []string
	gap := false
	err = m.Watch(context.Background(), []measure.Query{q}, func(t *measure.Tick) error {
		gap = IsGap(t)
		for i := range t.Answers[0].Series {
			if n := t.Answers[0].Label(i, 0); n != "" {
				names = append(names, n)
			}
		}
		return nil
	})
	if err != nil || gap || slices.Contains(names, name) {
		return err // in a gap it is unknown
	}
	if len(names) == 0 {
		return Usagef(
			"there was no network namespace %s then: the server recorded only its own", name,
		)
	}
	slices.Sort(names)
	return Usagef(
		"there was no network namespace %s then; there were %s%s", name, strings.Join(names, " "),
		DidYouMean(name, append(names, "all")),
	)
}
