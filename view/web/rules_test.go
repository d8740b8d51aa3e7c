package web

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view/web/access"
)

// allowedRoles has the roles that each request needs one of, written out: the test compares it with
// what the server does. "all": no token is needed.
//
// table: method and path, then roles
var allowedRoles = map[string]string{
	"GET /-/healthy":   "all",
	"GET /-/ready":     "all",
	"GET /again.js":    "all",
	"POST /api/login":  "all",
	"POST /api/logout": "metrics view profile record trace",

	"GET /metrics":  "metrics view profile record trace",
	"GET /api/v1/":  "metrics view profile record trace",
	"POST /api/v1/": "metrics view profile record trace",

	"GET /":                     "view profile record trace",
	"GET /{file}":               "view profile record trace",
	"GET /api/health":           "view profile record trace",
	"GET /api/catalogue":        "view profile record trace",
	"GET /api/parse":            "view profile record trace",
	"GET /api/ask":              "view profile record trace",
	"GET /api/rank":             "view profile record trace",
	"GET /api/questions":        "view profile record trace",
	"GET /api/prices":           "view profile record trace",
	"GET /api/live":             "view profile record trace",
	"GET /api/tools":            "view profile record trace",
	"GET /api/tool/{name}":      "view profile record trace",
	"GET /api/tool/{name}/live": "view profile record trace",
	"GET /api/diagnosis":        "view profile record trace",
	"GET /api/diagnosis/live":   "view profile record trace",
	"GET /api/findings":         "view profile record trace",
	"GET /api/hosts":            "view profile record trace",
	"GET /api/hosts/curves":     "view profile record trace",
	"GET /api/datasets":         "view profile record trace",
	"GET /api/changes":          "view profile record trace",
	"GET /api/changed":          "view profile record trace",
	"GET /api/notes":            "view profile record trace",
	"GET /api/worksheets":       "view profile record trace",
	"GET /api/scripts":          "view profile record trace",
	"GET /api/profiles":         "view profile record trace",
	"GET /api/profile":          "view profile record trace",
	"GET /api/profile/diff":     "view profile record trace",
	"GET /api/profile/changes":  "view profile record trace",
	"GET /api/sessions":         "view profile record trace",

	"POST /mcp":                          "view profile record trace",
	"POST /api/sessions/{id}/{action}":   "view profile record trace",
	"GET /debug/pprof/profile":           "profile trace",
	"POST /api/profiles":                 "profile record trace",
	"POST /api/profiles/take":            "profile trace",
	"POST /api/datasets":                 "record trace",
	"POST /api/datasets/{id}/{action}":   "record trace",
	"POST /api/notes":                    "record trace",
	"POST /api/notes/{id}/{action}":      "record trace",
	"POST /api/worksheets":               "record trace",
	"POST /api/worksheets/{id}/{action}": "record trace",
	"POST /api/scripts":                  "trace",
	"POST /api/scripts/{id}/{action}":    "trace",
	"POST /api/scripts/complete":         "trace",
	"POST /api/scripts/check":            "trace",
	"POST /api/scripts/probes":           "trace",
}

// Every route has a rule, and every rule a route.
func TestEveryRouteHasARule(t *testing.T) {
	var served, ruled []string
	for path, methods := range Routes() {
		for _, method := range methods {
			served = append(served, method+" "+path)
		}
	}
	served = append(served, "GET /", "GET "+access.PageFile, "GET /again.js", "GET /api/v1/",
		"POST /api/v1/") // beside the API
	for _, r := range access.Rules() {
		ruled = append(ruled, r.Method+" "+r.Path)
		if allowedRoles[r.Method+" "+r.Path] == "" {
			t.Errorf("%s %s: the test has no roles for it", r.Method, r.Path)
		}
	}
	slices.Sort(served)
	slices.Sort(ruled)
	if !slices.Equal(served, ruled) {
		t.Errorf("served %v\nruled  %v", served, ruled)
	}
	if len(ruled) != len(allowedRoles) {
		t.Errorf("%d rules, %d in the test", len(ruled), len(allowedRoles))
	}
}

// Each role may do what the table says, by each route with each method, and nothing else.
func TestRoles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	secrets := map[string]string{}
	for i, name := range access.Roles() {
		secrets[name] = addToken(t, path, name, access.Role(i+1), 0)
	}
	reached := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	})
	m := newMemory(t).filled(3)
	s := servePage(t, path, func(s *Server) {
		s.Prometheus, s.HiddenPrometheus, s.HiddenExport = reached, reached, noExport{}
		s.Scripts, s.Sample = scripted{m}, sampler(nil)
	})
	for what, roles := range allowedRoles {
		method, path, _ := strings.Cut(what, " ")
		address := strings.NewReplacer("{id}", "4000", "{action}", "suspend", "{name}", "nic",
			"{file}", "index.html",
			"/debug/pprof/profile", "/debug/pprof/profile?seconds=0").Replace(path)
		for _, name := range append([]string{"stranger"}, access.Roles()...) {
			headers := []string{"Authorization", "Bearer " + secrets[name]}
			if name == "stranger" {
				headers[1] = ""
			}
			if isUpload(address) {
				headers = append(headers, "Content-Type", "application/octet-stream")
			}
			got := s.request(method, address, "{", headers...).StatusCode
			want := roles == "all" || slices.Contains(strings.Fields(roles), name)
			refusal := http.StatusForbidden
			if name == "stranger" {
				refusal = http.StatusUnauthorized
			}
			if allowed := got != refusal; allowed != want {
				t.Errorf("%s, %s: status %d, allowed should be %v", name, what, got, want)
			}
		}
	}
}

// A method that a route does not have is refused to each role.
func TestOtherMethods(t *testing.T) {
	s := servePage(t, filepath.Join(t.TempDir(), "tokens"))
	for path, methods := range Routes() {
		address := strings.NewReplacer("{id}", "1", "{action}", "suspend", "{name}", "nic").
			Replace(path)
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			if slices.Contains(methods, method) {
				continue
			}
			if got := s.request(method, address, "{}").StatusCode; got != 405 {
				t.Errorf("%s %s: status %d, want 405", method, path, got)
			}
		}
	}
}

// noExport exports nothing.
type noExport struct{}

func (noExport) Append(
	_ context.Context, b []byte, _ measure.Interval, _ func(measure.StatID) bool,
) ([]byte, error) {
	return b, nil
}
