package remotewrite

import (
	"fmt"
	"sync"
	"time"

	"culprit/measure"
)

const (
	// minSkew is the difference between two clocks that is reported. The newest minute of a
	// receiver is wrong by it.
	minSkew = 10 * measure.Second
	// rejectionShown is how long a rejection is reported after the receiver accepts again.
	rejectionShown = 10 * time.Minute
)

// Subjects of problems. Each is a part of the key of a measure.Problem: the key stays while the
// text changes.
const (
	sending  = "" // the receiver does not answer, or can't take samples now
	position = "position"
	reading  = "reading"
	omitting = "omitted"
	clocks   = "clock"
	natives  = "histograms"
)

// state is what a Writer reports about itself. It is safe for concurrent use.
type state struct {
	name, host string
	now        func() time.Time

	mu       sync.Mutex        // guards the fields below
	problems map[string]string // text by subject
	lost     uint64            // samples that were rejected
	rejected string            // the newest rejection, ""
	at       time.Time         // when that was
	spent    measure.Span
}

func (s *state) init(name, host string, now func() time.Time) {
	s.name, s.host, s.now, s.problems = name, host, now, map[string]string{}
}

// set sets the current problem of a subject; an empty text clears it.
func (s *state) set(subject, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == "" {
		delete(s.problems, subject)
		return
	}
	s.problems[subject] = text
}

// reject counts rejected samples.
func (s *state) reject(n int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost += uint64(n)
	s.rejected, s.at = why, s.now()
}

func (s *state) spend(d measure.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent += d
}

// Problems returns the current problems of the target. Their keys contain its name. A rejection
// stays for rejectionShown, since rejected samples are lost.
func (w *Writer) Problems() (all []measure.Problem) {
	s := &w.state
	s.mu.Lock()
	defer s.mu.Unlock()
	add := func(subject, text string) {
		key := "remote write " + s.name
		if subject != sending {
			key += " " + subject
		}
		text = "remote write to " + s.host + ": " + text
		all = append(all, measure.Problem{Key: key, Text: text})
	}
	for _, subject := range []string{sending, clocks, position, reading, omitting, natives} {
		if text := s.problems[subject]; text != "" {
			add(subject, text)
		}
	}
	if s.rejected != "" && s.now().Sub(s.at) < rejectionShown {
		add("rejected", fmt.Sprintf("the receiver rejected %d samples, the last at %s: %s", s.lost,
			s.at.UTC().Format(time.RFC3339), s.rejected))
	}
	return all
}

// Lost returns the number of samples that the receiver rejected since the start.
func (w *Writer) Lost() uint64 {
	w.state.mu.Lock()
	defer w.state.mu.Unlock()
	return w.state.lost
}

// Spent returns the CPU time used so far to read and send samples.
func (w *Writer) Spent() measure.Span {
	w.state.mu.Lock()
	defer w.state.mu.Unlock()
	return w.state.spent
}
