package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"culprit/measure"
	"culprit/view/web/api"
)

// maxLongReply bounds a reply with many reports or tables, in bytes.
const maxLongReply = 32 << 20

// findings serves diagnoses.
type findings struct {
	*core
	live *live
	feed *feed // of the newest diagnosis
}

func newFindings(c *core, l *live) *findings {
	f := newFeed("diagnosis", "report", func(context.Context, measure.Time) []byte { return nil })
	return &findings{core: c, live: l, feed: f}
}

// run publishes each new diagnosis until the server ends.
func (s *findings) run() {
	var last measure.Time
	for {
		at, document, err := s.Machine.Report(s.ended, last)
		if err != nil {
			return
		}
		last = at
		s.publish(at, document)
	}
}

// publish makes a diagnosis the newest. A panic ends neither later ones nor the recording.
func (s *findings) publish(at measure.Time, document []byte) {
	defer func() {
		if p := recover(); p != nil {
			_ = s.recovered("sending a diagnosis", p) // counted
		}
	}()
	s.feed.publish(at, appendReport(nil, at, document))
}

// appendReport appends a diagnosis with its time, in one line. A document that is not JSON becomes
// null.
func appendReport(b []byte, at measure.Time, document []byte) []byte {
	b = api.AppendMillis(append(b, `{"at_ms":`...), int64(at))
	b = append(b, `,"report":`...)
	var line bytes.Buffer
	if err := json.Compact(&line, document); err != nil {
		return append(b, "null}"...)
	}
	return append(append(b, line.Bytes()...), '}')
}

// newest replies with the newest diagnosis.
func (s *findings) newest(w http.ResponseWriter, r *http.Request) error {
	if err := noParameters(r); err != nil {
		return err
	}
	if e, _ := s.feed.newestEvent(); e != nil {
		return s.sendJSON(w, r, bytes.Clone(e.data))
	}
	return s.sendJSON(w, r, []byte(`{"at_ms":null,"report":null}`))
}

// follow streams the newest diagnosis and each one after it. Meanwhile they are more frequent.
func (s *findings) follow(w http.ResponseWriter, r *http.Request) error {
	if err := noParameters(r); err != nil {
		return err
	}
	defer s.Machine.Attend()()
	return s.live.follow(w, r, s.feed, 0)
}

// logged replies with the diagnoses of a time range.
func (s *findings) logged(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(r.URL.RawQuery, s.now(), []string{"from", "to"}, nil)
	if err != nil {
		return err
	}
	over, err := p.over(24 * 60 * measure.Minute)
	if err != nil {
		return err
	}
	ctx, release, err := s.acquire(r.Context())
	if err != nil {
		return err
	}
	defer release()
	b := []byte(`{"reports":[`)
	err = s.Machine.Reports(ctx, over, func(at measure.Time, document []byte) error {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		if b = appendReport(b, at, document); len(b) > maxLongReply {
			return tooLarge("there are too many diagnoses in this time", "choose a shorter time")
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}
