package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"culprit/measure"
	"culprit/view/web/api"
)

// mostFindings bounds the reports of one answer, in bytes.
const mostFindings = 32 << 20

// reports follows the diagnoses; a viewer of a live diagnosis sees its feed.
func (s *Server) reports() {
	var last measure.Time
	for {
		at, document, err := s.Machine.Report(s.ended, last)
		if err != nil {
			return
		}
		last = at
		s.tellReport(at, document)
	}
}

// tellReport makes a diagnosis the newest. A panic in it ends neither the next ones nor the recording.
func (s *Server) tellReport(at measure.Time, document []byte) {
	defer func() {
		if p := recover(); p != nil {
			s.broke("sending a diagnosis", p) //nolint:errcheck // counted
		}
	}()
	s.report.tell(at, appendReport(nil, at, document))
}

// appendReport appends a diagnosis with its time, in one line. A document that is no JSON is null.
func appendReport(b []byte, at measure.Time, document []byte) []byte {
	b = api.AppendMillis(append(b, `{"at_ms":`...), int64(at))
	b = append(b, `,"report":`...)
	var line bytes.Buffer
	if err := json.Compact(&line, document); err != nil {
		return append(b, "null}"...)
	}
	return append(append(b, line.Bytes()...), '}')
}

// diagnosis gives the newest.
func (s *Server) diagnosis(w http.ResponseWriter, r *http.Request) error {
	if _, err := parametersOf(r.URL.RawQuery, 0, nil, nil); err != nil {
		return err
	}
	if e, _ := s.report.newestEvent(); e != nil {
		return s.sendJSON(w, r, bytes.Clone(e.data))
	}
	return s.sendJSON(w, r, []byte(`{"at_ms":null,"report":null}`))
}

// liveDiagnosis streams each new diagnosis, the newest at once.
func (s *Server) liveDiagnosis(w http.ResponseWriter, r *http.Request) error {
	if _, err := parametersOf(r.URL.RawQuery, 0, nil, nil); err != nil {
		return err
	}
	return s.follow(w, r, s.report, 0)
}

// findings gives the logged diagnoses of a time.
func (s *Server) findings(w http.ResponseWriter, r *http.Request) error {
	p, err := parametersOf(r.URL.RawQuery, s.now(), []string{"from", "to"}, nil)
	if err != nil {
		return err
	}
	over, err := p.over(24 * 60 * measure.Minute)
	if err != nil {
		return err
	}
	ctx, done, err := s.place(r.Context())
	if err != nil {
		return err
	}
	defer done()
	b := []byte(`{"reports":[`)
	err = s.Machine.Reports(ctx, over, func(at measure.Time, document []byte) error {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		if b = appendReport(b, at, document); len(b) > mostFindings {
			return &fault{status: http.StatusRequestEntityTooLarge, Code: "too-large", Message: "there are too many diagnoses in this time", Hint: "ask for less time"}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return s.sendJSON(w, r, append(b, "]}"...))
}

// newReportFeed makes the feed of the diagnoses, which nothing but reports tells.
func newReportFeed() *feed {
	return newFeed("diagnosis", "report", func(context.Context, measure.Time) []byte { return nil })
}
