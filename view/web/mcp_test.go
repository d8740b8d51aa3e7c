package web

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view/mcp"
	"culprit/view/show"
	"culprit/view/web/access"
)

// listed is a machine of which the tools of /mcp can list the statistics.
type listed struct{ *memory }

func (l listed) Stats() ([]measure.Stat, error)        { return l.stats, nil }
func (listed) Live(string, bool) (show.Machine, error) { return nil, nil }
func (listed) Recording() (show.Recorded, error)       { return nil, measure.ErrUnsupported }
func (listed) Do(ctx context.Context, f func(context.Context) error) error {
	return f(ctx)
}

// A token is enough for /mcp, without other headers. A browser's session is refused.
func TestMCPNeedsAToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	viewer := addToken(t, path, "viewer", access.RoleView, 0)
	s := servePage(t, path, func(s *Server) {
		s.MCP = mcp.Handler(mcp.New(listed{newMemory(t)}, "1"))
	})
	const list = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	res := s.request("POST", "/mcp", list, "Authorization", "Bearer "+viewer, "X-Culprit", "",
		"Content-Type", "application/json")
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(b), `"diagnose"`) {
		t.Errorf("status %d: %.300s, %v", res.StatusCode, b, err)
	}
	if got := s.login(viewer).post("/mcp", list).StatusCode; got != http.StatusForbidden {
		t.Errorf("with a session: status %d", got)
	}
}

// What the protocol's handler refuses is an error of the API, and a notification has no body.
func TestMCPRefusals(t *testing.T) {
	s := servePage(t, filepath.Join(t.TempDir(), "tokens"), func(s *Server) {
		s.MCP = mcp.Handler(mcp.New(listed{newMemory(t)}, "1"))
	})
	for body, want := range map[string]int{
		"": 400, "{": 400, `{"jsonrpc":"1.0"}`: 400, strings.Repeat("[", 60_000): 400,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`: 202,
	} {
		res := s.request("POST", "/mcp", body)
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != want {
			t.Errorf("%.50q: status %d, want %d, %v: %.300s", body, res.StatusCode, want, err, b)
		}
		var refused struct {
			Error struct{ Message, Code string }
		}
		if want >= 400 && (json.Unmarshal(b, &refused) != nil || refused.Error.Code == "") {
			t.Errorf("%.50q: %.300s", body, b)
		}
	}
}

// RunQuery returns a panic as an error, counts it, and frees its slot.
func TestRunQuery(t *testing.T) {
	s := New(newMemory(t), About{}, token)
	defer s.Close()
	for range 2 * maxRunningQueries {
		err := s.RunQuery(t.Context(), func(context.Context) error { panic("broken") })
		if err == nil || !strings.Contains(err.Error(), "broken") {
			t.Errorf("%v", err)
		}
	}
	if s.RunningQueries() != 0 || s.total.Load() == 0 {
		t.Errorf("%d queries run, %d faults", s.RunningQueries(), s.total.Load())
	}
	err := s.RunQuery(t.Context(), func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok || s.RunningQueries() != 1 {
			t.Error("the time is not bounded, or the query is not counted")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
