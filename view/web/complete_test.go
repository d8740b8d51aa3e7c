package web

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"culprit/measure"
)

func TestCompletion(t *testing.T) {
	var asked Completing
	s := serve(t, newMemory(t), func(s *Server) {
		s.Complete = func(_ context.Context, q Completing) (*Completion, error) {
			asked = q
			if q.Check {
				return nil, errors.Join(
					&measure.Diagnostic{Text: q.Text, Pos: 1, Len: 2, Message: "bad"},
					&measure.Diagnostic{Text: q.Text, Pos: 4, Message: "worse"},
				)
			}
			return &Completion{From: 1, To: 3, More: 2, Words: []CompletionWord{
				{"execname", "variable", "a <name>"},
			}}, nil
		}
	})
	for _, c := range []struct {
		path, body string
		status     int
		want       string
		asked      Completing
	}{
		{"complete", `{"text":"pid","position":3}`, 200,
			`{"from":1,"to":3,"words":[{"text":"execname","kind":"variable","help":"a \u003cname\u003e"}],"more":2}`,
			Completing{Text: "pid", Pos: 3}},
		{"probes", `{"match":"tcp"}`, 200, `"more":2}`, Completing{Pos: -1, Match: "tcp"}},
		{"check", `{"text":"BEGIN x"}`, 400, `"also":[{"message":"worse"`,
			Completing{Text: "BEGIN x", Pos: -1, Check: true}},
		{"complete", `{"text":"pid","position":4}`, 400, "position", Completing{}},
		{"complete", `{"text":"pid","position":-1}`, 400, "position", Completing{}},
		{"complete", `{"text":"` + strings.Repeat("x", maxProgram+1) + `","position":0}`, 413,
			"bytes", Completing{}},
		{"probes", `{"match":""}`, 400, "match", Completing{}},
		{"probes", `{"match":"` + strings.Repeat("x", maxProbeMatch+1) + `"}`, 400, "match",
			Completing{}},
	} {
		asked = Completing{}
		res := s.request("POST", "/api/scripts/"+c.path, c.body)
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != c.status || !strings.Contains(string(b), c.want) {
			t.Errorf("%s %.80s: %d %s, want %d %s", c.path, c.body, res.StatusCode, b, c.status, c.want)
		}
		if asked != c.asked {
			t.Errorf("%s %.80s asks %+v", c.path, c.body, asked)
		}
	}
	none := serve(t, newMemory(t))
	res := none.request("POST", "/api/scripts/probes", `{"match":"x"}`)
	if got := none.code(res); got != "501 unsupported" {
		t.Error(got)
	}
}
