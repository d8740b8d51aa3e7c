package web

import (
	"fmt"
	"strings"
	"testing"
)

// worksheetsReply is the reply of /api/worksheets.
type worksheetsReply struct {
	Worksheets []struct {
		ID, Version uint32
		Name, State string
		AtMS        float64 `json:"at_ms"`
		Who         string
	}
	Problem string
}

// Two viewers save changes of one version: the second is refused with the reason, and what the
// first saved stays.
func TestWorksheets(t *testing.T) {
	s := serve(t, newMemory(t).filled(3)).until(start + 3*second)
	post := func(path, body string) (int, string) {
		return s.reply(s.request("POST", "/api/worksheets"+path, body))
	}
	list := func() string {
		var r worksheetsReply
		s.decodeReply(s.get("/api/worksheets"), &r)
		var all []string
		for _, one := range r.Worksheets {
			all = append(all, fmt.Sprint(one.ID, " ", one.Name, " ", one.State, " ", one.Version))
		}
		return strings.Join(all, "; ") + r.Problem
	}
	for _, tt := range []struct {
		name, path, body string
		status           int
		reply, list      string
	}{
		{"a new one", "", `{"name":"web","state":"q=a"}`, 200, `"id":1`, "1 web q=a 1"},
		{"the first", "", `{"id":1,"version":1,"name":"web","state":"q=b"}`, 200, `"version":2`,
			"1 web q=b 2"},
		{"the second", "", `{"id":1,"version":1,"name":"web","state":"q=c"}`, 409,
			"it has version 2 now", "1 web q=b 2"},
		{"a name in use", "", `{"name":"web","state":"q=c"}`, 409, `"code":"conflict"`,
			"1 web q=b 2"},
		{"another name", "", `{"name":"a","state":"q=c"}`, 200, `"id":2`, "2 a q=c 1; 1 web q=b 2"},
		{"an old version", "/1/remove", `{"version":1}`, 409, "conflict", "2 a q=c 1; 1 web q=b 2"},
		{"this version", "/1/remove", `{"version":2}`, 200, "{}", "2 a q=c 1"},
		{"again", "/1/remove", `{"version":2}`, 200, "{}", "2 a q=c 1"},
		{"what never was", "/9/remove", `{"version":2}`, 404, "no worksheet 9", "2 a q=c 1"},
		{"another action", "/2/share", `{}`, 404, "remove", "2 a q=c 1"},
		{"no name", "", `{"state":"q=c"}`, 400, "the name must be", "2 a q=c 1"},
		{"a name with a space before it", "", `{"name":" b"}`, 400, "the name must be", "2 a q=c 1"},
		{"no state of a page", "", `{"name":"b","state":"a b"}`, 400, "the state must", "2 a q=c 1"},
		{"an unknown field", "", `{"name":"b","graphs":[]}`, 400, "unknown field", "2 a q=c 1"},
		{"a negative version", "", `{"id":2,"version":-1,"name":"b"}`, 400, "version", "2 a q=c 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, reply := post(tt.path, tt.body)
			if status != tt.status || !strings.Contains(reply, tt.reply) {
				t.Errorf("status %d, want %d: %s", status, tt.status, reply)
			}
			if got := list(); got != tt.list {
				t.Errorf("kept are %q, want %q", got, tt.list)
			}
		})
	}
}
