package pyroscope

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"culprit/export/receiver"
	"culprit/measure"
	"culprit/profile"
)

const (
	interval       = 15 * measure.Second
	requestTimeout = 10 * time.Second
	// The wait between two attempts doubles from minWait to maxWait.
	minWait, maxWait = time.Second, time.Minute
	// maxBehind is the age in the recording after which a profile is not sent any more.
	maxBehind = 5 * measure.Minute
	// lossShown is how long Trouble reports profiles that were not delivered.
	lossShown = 10 * time.Minute
)

// Limits of the profiles of an interval, which are in memory until they are delivered.
const (
	maxServices = 100
	maxCalls    = 500_000
	maxBytes    = 16 << 20 // packed
)

// A Machine is a recording: its answers, and the time of its ticks as of web.Machine.
type Machine interface {
	measure.Reader
	// Tick waits for a tick later than after, and returns the newest one.
	Tick(ctx context.Context, after measure.Time) (measure.Time, error)
}

// A Sender sends profiles to one server. It has no queue: it reads them from the recording.
type Sender struct {
	target   *receiver.Target
	instance string
	header   http.Header
	backoff  receiver.Backoff
	cpu      func() measure.Span

	mu      sync.Mutex // guards the fields below
	trouble string
	lost    int       // intervals and profiles that were not delivered
	lostAt  time.Time // when the newest of them was given up
	spent   measure.Span
}

// New returns the sender to an address; see receiver.Parse. instance is the label of that name, and
// cpu returns the CPU time of the calling thread. The error is of the address or one of its files.
func New(address, instance, version string, cpu func() measure.Span) (*Sender, error) {
	t, err := receiver.Parse(address, requestTimeout)
	if err != nil {
		return nil, fmt.Errorf("pyroscope: %w", err)
	}
	return &Sender{
		target: t, instance: instance, cpu: cpu,
		backoff: receiver.Backoff{Min: minWait, Max: maxWait},
		header: http.Header{
			"Content-Type": {"binary/octet-stream"}, "User-Agent": {"culprit/" + version},
		},
	}, nil
}

// Run sends the profiles of a recording until ctx ends, beginning now.
func (s *Sender) Run(ctx context.Context, m Machine) {
	start, err := m.Tick(ctx, 0)
	for ctx.Err() == nil {
		over := measure.Interval{Start: start, End: start.Add(interval)}
		var newest measure.Time
		if err == nil {
			newest, err = m.Tick(ctx, over.End-1)
		}
		if err != nil { // the recording ended
			s.setTrouble(err)
			return
		}
		if newest > over.End.Add(maxBehind) {
			s.lose(1)
		} else {
			s.deliver(ctx, m, over)
		}
		start = over.End
	}
}

// deliver reads the profiles of an interval and sends them, again and again until they are too old.
func (s *Sender) deliver(ctx context.Context, m Machine, over measure.Interval) {
	all, err := s.read(ctx, m, over)
	if err != nil {
		s.setTrouble(err)
		return
	}
	var rejected error
	for i := 0; i < len(all) && ctx.Err() == nil; {
		err := s.target.Post(ctx, s.path(all[i].Service, over), all[i].Data, s.header)
		switch {
		case err == nil:
			s.backoff.Reset()
			i++
			continue
		case receiver.IsFinal(err):
			rejected = err
			s.lose(1)
			i++
			continue
		}
		s.setTrouble(err)
		if newest, err := m.Tick(ctx, 0); err != nil || newest > over.End.Add(maxBehind) {
			s.lose(1)
			return
		}
		sleep(ctx, s.backoff.Next(err))
	}
	s.setTrouble(rejected)
}

// read returns the profiles of an interval. The error is that of profile.AskOwned, or says that the
// profiles are too large.
func (s *Sender) read(
	ctx context.Context, m Machine, over measure.Interval,
) ([]profile.ServiceProfile, error) {
	runtime.LockOSThread()
	before := s.cpu()
	defer func() {
		s.mu.Lock()
		s.spent += s.cpu() - before
		s.mu.Unlock()
		runtime.UnlockOSThread()
	}()
	got, err := profile.AskOwned(ctx, m, over)
	if err != nil {
		return nil, err
	}
	if n := got.Tree.Len(); n > maxCalls {
		return nil, fmt.Errorf("a profile has %d calls, more than %d", n, maxCalls)
	}
	all, err := profile.Services(got.Tree, maxServices)
	size := 0
	for i := range all {
		if size += len(all[i].Data); size > maxBytes {
			return nil, errors.New("the profiles of 15 s have more than 16 MB")
		}
	}
	return all, err
}

// path returns the path and the query of the request with the profile of a service.
func (s *Sender) path(service string, over measure.Interval) string {
	return "/ingest?" + url.Values{
		"name": {"culprit{service_name=" + labelValue(service) + ",instance=" +
			labelValue(s.instance) + "}"},
		"from":    {strconv.FormatInt(over.Start.AsTime().Unix(), 10)},
		"until":   {strconv.FormatInt(over.End.AsTime().Unix(), 10)},
		"format":  {"pprof"},
		"spyName": {"culprit"},
	}.Encode()
}

// labelValue returns a text as the value of a label in a name of Pyroscope, which has no escapes:
// a comma or a brace would end the value. It is never empty.
func labelValue(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if strings.ContainsRune(",{}=", r) {
			return '_'
		}
		return r
	}, measure.Clean(text)))
	if text == "" {
		return "unknown"
	}
	return text
}

// Key identifies the sender among all.
func (s *Sender) Key() string { return "pyroscope " + s.target.String() }

// Spent returns the CPU time of reading profiles.
func (s *Sender) Spent() measure.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spent
}

// Trouble returns the current problem, "" for none.
func (s *Sender) Trouble() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.trouble != "":
		return s.Key() + ": " + s.trouble
	case s.lost > 0 && time.Since(s.lostAt) < lossShown:
		return fmt.Sprintf("%s: %d profiles were not delivered", s.Key(), s.lost)
	}
	return ""
}

// setTrouble sets the current problem by an error; nil clears it.
func (s *Sender) setTrouble(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trouble = ""; err != nil {
		s.trouble = err.Error()
	}
}

// lose counts profiles that are not delivered.
func (s *Sender) lose(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost += n
	s.lostAt = time.Now()
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
