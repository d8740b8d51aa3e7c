package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"culprit/measure"
	"culprit/profile"
)

// Limits of profiles for scrapers.
const (
	defaultScrapeSeconds = 30 // as of Go's net/http/pprof
	maxScrapeSeconds     = 60
	maxScrapes           = 4 // at the same time
	maxLateness          = 10 * time.Second
)

// scrape waits for a time, and replies with the samples that were recorded meanwhile, in pprof's
// format: for go tool pprof, Parca, Alloy and others. It samples nothing itself.
func (s *profiles) scrape(w http.ResponseWriter, r *http.Request) error {
	q, err := parametersOf(r.URL.RawQuery, 0, []string{"seconds"}, nil)
	if err != nil {
		return err
	}
	seconds := defaultScrapeSeconds
	if text := q.text("seconds"); text != "" {
		seconds, err = strconv.Atoi(text)
		if err != nil || seconds < 1 || seconds > maxScrapeSeconds {
			return badRequest("seconds is %s, and must be a whole number from 1 to %d",
				printable(text), maxScrapeSeconds)
		}
	}
	select {
	case s.scrapes <- struct{}{}:
		defer func() { <-s.scrapes }()
	default:
		return busy("too many profiles are being taken", "repeat it in a moment")
	}
	return s.replyScrape(w, r, measure.Span(seconds)*measure.Second)
}

// recordedFrom waits for a time to pass, and returns it as the ticks of the recording bound it. It
// begins at the newest tick. The error says that the recording stopped, or is the context's.
func (s *profiles) recordedFrom(
	ctx context.Context, length measure.Span,
) (over measure.Interval, err error) {
	ctx, end := context.WithTimeout(ctx, length.AsDuration()+s.lateness)
	defer end()
	if over.Start, err = s.Machine.Tick(ctx, 0); err == nil {
		over.End = over.Start.Add(length)
		_, err = s.Machine.Tick(ctx, over.End-1)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = busy("nothing was recorded meanwhile", "api/health reports why")
	}
	return over, err
}

// replyScrape waits for a time, and replies with its samples.
func (s *profiles) replyScrape(
	w http.ResponseWriter, r *http.Request, length measure.Span,
) error {
	allowLate(w, length.AsDuration())
	ctx, end := context.WithCancel(r.Context())
	defer end()
	defer context.AfterFunc(s.ended, end)()
	over, err := s.recordedFrom(ctx, length)
	if s.ended.Err() != nil {
		err = busy("the server stops", "repeat it when it runs again")
	}
	if err != nil {
		return err
	}
	ctx, release, err := s.acquireReading(ctx)
	if err != nil {
		return err
	}
	defer release()
	got, err := profile.AskOwned(ctx, s.Machine, over)
	if err != nil {
		return err
	}
	if got.Tree.Len() > maxCalls {
		return profileTooLarge("the profile has %d calls, more than %d", got.Tree.Len(), maxCalls)
	}
	var b bytes.Buffer
	if err := profile.WriteOwned(&b, got.Tree); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="profile"`)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	_, _ = w.Write(b.Bytes()) // fails only if the client is gone
	return nil
}
