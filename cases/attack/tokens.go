package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// tokenAttacks try to do more than a token allows.
func tokenAttacks() []attack {
	return []attack{
		{"R1", "each role", "each role against each route and method",
			"403 below the role that docs list", rolesAndRoutes},
		{"R3", "metrics", "command lines, users and peers in metrics", "not there", hiddenFields},
		{"R2", "view", "17 spellings of 5 paths that change something", "403, 404 or 405",
			spellings},
		{"S2", "a local user's web server", "a stolen cookie alone starts a D program",
			"401 or 403", cookieAlone},
		{"S6", "a local user", "directory, token, tokens and archive of another user",
			"refused, not followed", planted},
		{"S15", "a reader of logs", "the token in output that is no terminal", "no token",
			tokenInLog},
		{"S8", "view", "a password in another user's command line",
			"masked in API, metrics and archive", passwords},
	}
}

// allowed lists the roles of each route of docs/openapi.yaml, apart from the program's own table. A
// route that is missing here fails R1, so that each new one is decided on. "*": everybody, also
// without a token.
// table: roles by method and path
var allowed = map[string]string{
	"GET /-/healthy":                     "*",
	"GET /-/ready":                       "*",
	"POST /api/login":                    "*",
	"POST /api/logout":                   "metrics view profile record trace",
	"GET /metrics":                       "metrics view profile record trace",
	"GET /api/v1/query":                  "metrics view profile record trace",
	"POST /api/v1/query":                 "metrics view profile record trace",
	"POST /mcp":                          "view profile record trace",
	"POST /api/sessions/{id}/{action}":   "view profile record trace",
	"POST /api/profiles":                 "profile record trace",
	"POST /api/profiles/take":            "profile trace",
	"GET /debug/pprof/profile":           "profile trace",
	"POST /api/datasets":                 "record trace",
	"POST /api/datasets/{id}/{action}":   "record trace",
	"POST /api/notes":                    "record trace",
	"POST /api/notes/{id}/{action}":      "record trace",
	"POST /api/worksheets":               "record trace",
	"POST /api/worksheets/{id}/{action}": "record trace",
	"POST /api/scripts":                  "trace",
	"POST /api/scripts/complete":         "trace",
	"POST /api/scripts/check":            "trace",
	"POST /api/scripts/probes":           "trace",
	"POST /api/scripts/{id}/{action}":    "trace",
}

// allowedRoles returns the roles of a route; "": it is not decided.
func allowedRoles(route string) string {
	if strings.HasPrefix(route, "GET ") && allowed[route] == "" {
		return "view profile record trace"
	}
	return allowed[route]
}

// route matches a path or a method of docs/openapi.yaml.
// table: a regular expression is no constant
var route = regexp.MustCompile(`(?m)^  (/\S+):$|^    (get|post|put|delete):$`)

// routes returns the routes of docs/openapi.yaml as "GET /api/health".
func routes(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "openapi.yaml"))
	if err != nil {
		return nil, err
	}
	var all []string
	path := ""
	for _, m := range route.FindAllStringSubmatch(string(text), -1) {
		if m[1] != "" {
			path = m[1]
			continue
		}
		all = append(all, strings.ToUpper(m[2])+" "+path)
	}
	if len(all) < 20 {
		return nil, fmt.Errorf(openAPI+" has only %d routes", len(all))
	}
	return all, nil
}

// roleNames returns the roles of the program under test, least first, from its own message.
func (b *bench) roleNames() ([]string, error) {
	_, said, _, err := b.tool(10*time.Second, "tokens", "add", "nobody", "--may", "everything",
		"--print-token", "--dir", b.main.dir)
	_, list, found := strings.Cut(said, " is none of ")
	if err != nil || !found {
		return nil, errors.Join(fmt.Errorf("the roles are not listed: %s", said), err)
	}
	list, _, _ = strings.Cut(list, "\n")
	return strings.Split(list, ", "), nil
}

func rolesAndRoutes(b *bench) (string, error) {
	all, err := routes(b.dir)
	if err != nil {
		return "", err
	}
	all = append(all, "GET /api/v1/query", "POST /api/v1/query")
	roles, err := b.roleNames()
	if err != nil {
		return "", err
	}
	tried := 0
	for _, role := range append([]string{""}, roles...) {
		token := ""
		if role != "" {
			if token, err = b.main.giveToken(role); err != nil {
				return "", err
			}
		}
		for _, r := range all {
			if err := b.tryRoute(r, role, token); err != nil {
				return "", err
			}
			tried++
		}
	}
	return fmt.Sprintf("%d requests: %d roles and none, %d routes", tried, len(roles), len(all)),
		nil
}

// tryRoute sends a request with a token of a role; "": without a token.
func (b *bench) tryRoute(route, role, token string) error {
	method, path, _ := strings.Cut(route, " ")
	path = strings.NewReplacer("{id}", "999999", "{action}", "remove", "{name}", "nic").
		Replace(path)
	if strings.HasSuffix(path, "/live") {
		path += "?from=nonsense" // an answer without end otherwise
	}
	if strings.HasPrefix(path, "/debug/") {
		path += "?seconds=0" // it would wait
	}
	a, err := b.main.request(method, path, token, `{"x":1}`, "X-Culprit", "1", "Content-Type",
		"application/json")
	if err != nil {
		return fmt.Errorf("%s with the role %q: %w", route, role, err)
	}
	may := allowedRoles(route)
	admitted := a.status != 401 && a.status != 403
	switch {
	case may == "":
		return fmt.Errorf("%s is not in the table of this program", route)
	case may == "*" && (admitted || method == "POST"): // a login without a code is refused
		return nil
	case admitted != slices.Contains(strings.Fields(may), role):
		return fmt.Errorf("%s with the role %q: status %d", route, role, a.status)
	case role == "" && a.status != 401:
		return fmt.Errorf("%s without a token: status %d", route, a.status)
	}
	return nil
}

// hiddenFields looks for command lines, users and peers in what the role metrics gets.
func hiddenFields(b *bench) (string, error) {
	token, err := b.main.giveToken("metrics")
	if err != nil {
		return "", err
	}
	names := 0
	for _, path := range []string{
		"/metrics", "/api/v1/query?query=" + url.QueryEscape(`{__name__=~".+"}`),
		"/api/v1/labels", "/api/v1/query?query=culprit_process_info",
		"/api/v1/query?query=culprit_tcp_flow_bytes_total",
		"/api/v1/label/command/values", "/api/v1/label/peer/values", "/api/v1/label/user/values",
	} {
		a, err := b.main.request("GET", path, token, "")
		if err != nil {
			return "", err
		}
		for _, field := range []string{"command", "user", "peer", "client", "stack"} {
			if bytes.Contains(a.body, []byte(field+`="`)) ||
				bytes.Contains(a.body, []byte(`"`+field+`":"`)) {
				return "", fmt.Errorf("%s has the field %s", path, field)
			}
		}
		if strings.HasPrefix(path, "/api/v1/label/") && bytes.Contains(a.body, []byte(`data":["`)) {
			return "", fmt.Errorf("%s has values: %.100s", path, a.body)
		}
		names += bytes.Count(a.body, []byte("culprit_"))
	}
	if names == 0 {
		return "", errors.New("there is no metric: the attack has to be adapted")
	}
	return "no command line, user, peer or stack", nil
}

func spellings(b *bench) (string, error) {
	token, err := b.main.giveToken("view")
	if err != nil {
		return "", err
	}
	t := &tally{}
	for _, path := range []string{
		"/api/scripts", "/api/datasets", "/api/profiles/take", "/api/datasets/1/destroy",
		"/api/profiles",
	} {
		escaped := strings.Replace(path, "api", "%61pi", 1)
		for _, p := range []string{
			path, path + "/", "/" + path, path + "?x=1", path + "#x", path + "%20", path + ";x",
			path + "/.", path + "/..", "/x/.." + path, "/." + path, strings.ToUpper(path),
			strings.ReplaceAll(path, "/", "//"), escaped, path + "%2f", "/api/v1/.." + path[4:],
			strings.Replace(path, "/api", "/api/v1/../../api", 1),
		} {
			status, _, err := b.main.raw("POST " + p + " HTTP/1.1\r\nHost: " + b.main.host +
				"\r\nConnection: close\r\nAuthorization: Bearer " + token + "\r\nX-Culprit: 1\r\n" +
				"Content-Type: application/json\r\nContent-Length: 22\r\n\r\n" +
				`{"text":"BEGIN{exit()}`)
			if err != nil {
				return "", err
			}
			t.add(p, status, "403", "404", "405", "301", "307", "400")
		}
	}
	return t.result()
}

func cookieAlone(b *bench) (string, error) {
	s := b.main
	a, err := s.request("GET", "/?token="+s.token, "", "")
	if err != nil {
		return "", err
	}
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	if cookie == "" {
		return "", errors.New("the page sets no cookie: the attack has to be adapted")
	}
	a, err = s.request("POST", "/api/scripts", "", `{"text":"BEGIN { exit(0); }"}`, "Cookie",
		cookie,
		"X-Culprit", "1", "Content-Type", "application/json", "Origin", "http://"+s.host)
	if err != nil {
		return "", err
	}
	if a.status != 401 && a.status != 403 {
		return "", fmt.Errorf("status %d: a D program runs by a cookie that each port of "+
			"127.0.0.1 gets", a.status)
	}
	before, err := s.request("GET", "/api/health", "", "", "Cookie", cookie)
	if err != nil {
		return "", err
	}
	_, err = b.must(10*time.Second, "sessions", "revoke", "all", "--dir", s.dir)
	after, err2 := s.request("GET", "/api/health", "", "", "Cookie", cookie)
	if err = errors.Join(err, err2); err != nil {
		return "", err
	}
	if before.status != 200 || after.status != 401 {
		return "", fmt.Errorf("the cookie views with status %d, after its session was revoked %d",
			before.status, after.status)
	}
	return fmt.Sprintf("%d %s; the cookie ends with its session", a.status, a.code()), nil
}

const plantedToken = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// planted starts servers on directories that another user has made, and puts files into that of a
// running server.
func planted(b *bench) (string, error) {
	refused := func(what string, make func(dir string) error) error {
		dir := b.newDir()
		if err := make(dir); err != nil {
			return err
		}
		s, err := b.start(dir, nil)
		if err != nil {
			return err
		}
		defer s.kill()
		select {
		case <-s.ended:
			return nil
		case <-time.After(5 * time.Second):
			return fmt.Errorf("%s: the server runs", what)
		}
	}
	target := b.newDir()
	mine := func(dir string) error {
		return errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, nobody, nobody))
	}
	for _, c := range []struct {
		what string
		make func(dir string) error
	}{
		{"a directory of nobody", mine},
		{"a directory that all may write to", func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777))
		}},
		{"a token of nobody", func(dir string) error {
			f := filepath.Join(dir, "token")
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(f, []byte(plantedToken+"\n"),
				0o600),
				os.Chown(f, nobody, nobody))
		}},
		{"an archive that is a link", func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.MkdirAll(target, 0o700),
				os.WriteFile(filepath.Join(target, "000002.log"), []byte("precious"), 0o600),
				os.Symlink(target, filepath.Join(dir, "archive")))
		}},
	} {
		if err := refused(c.what, c.make); err != nil {
			return "", err
		}
	}
	if text, err := os.ReadFile(filepath.Join(target, "000002.log")); string(text) != "precious" {
		return "", failed(err, "a file behind a link was changed: %q", text)
	}
	tokens := filepath.Join(b.main.dir, "tokens")
	saved, _ := os.ReadFile(tokens) // there may be none yet
	sum := sha256.Sum256([]byte(plantedToken))
	text := fmt.Sprintf(`[{"name":"x","may":"trace","sha256":"%x","made_ms":1}]`, sum)
	_ = os.Remove(tokens) // there may be none
	if err := errors.Join(os.WriteFile(tokens, []byte(text), 0o644),
		os.Chown(tokens, nobody, nobody)); err != nil {
		return "", err
	}
	time.Sleep(1500 * time.Millisecond) // it may be read once per second
	a, err := b.main.request("GET", "/api/health", plantedToken, "")
	_ = os.Remove(tokens)
	if saved != nil {
		err = errors.Join(err, os.WriteFile(tokens, saved, 0o600), os.Chown(tokens, serverUser(b),
			serverUser(b)))
	}
	if err == nil && a.status != 401 {
		err = fmt.Errorf("a planted file of tokens lets in: status %d", a.status)
	}
	return "4 directories refused, planted tokens 401", err
}

// serverUser returns the owner of the directory of the main server.
func serverUser(b *bench) int { return ownerOf(filepath.Join(b.main.dir, "token")) }

func tokenInLog(b *bench) (string, error) {
	text := b.main.text()
	if text == "" {
		return "", errors.New("the server prints nothing: the attack has to be adapted")
	}
	if strings.Contains(text, b.main.token) {
		return "", errors.New("the token is in the output")
	}
	for name, pids := range b.main.processes() {
		for _, pid := range pids {
			for _, file := range []string{"cmdline", "environ"} {
				all, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)) // it may have ended
				if strings.Contains(string(all), b.main.token) {
					return "", fmt.Errorf("the token is in %s of %s", file, name)
				}
			}
		}
	}
	return "neither in the output nor in command lines and environments", nil
}

// passwords runs a program with a password on its command line, and looks for it.
func passwords(b *bench) (string, error) {
	const secret = "HUNTER2SECRET"
	c := asNobody("sh", "-c", "while :; do :; done", "worker", "--password="+secret)
	if err := b.helper(c); err != nil {
		return "", err
	}
	token, err := b.main.giveToken("view")
	if err != nil {
		return "", err
	}
	seen := false
	for range 5 {
		time.Sleep(time.Second)
		for _, path := range []string{
			"/api/ask?q=process.info+by+pid,process,command&from=-5s&to=now&step=1000", "/metrics",
			"/api/v1/query?query=culprit_process_info", "/api/tool/ps?from=-5s", "/api/findings",
		} {
			a, err := b.main.request("GET", path, token, "")
			if err != nil {
				return "", err
			}
			if strings.Contains(string(a.body), secret) {
				return "", fmt.Errorf("%s has the password", path)
			}
			seen = seen || strings.Contains(string(a.body), "--password=")
		}
	}
	if !seen {
		return "", errors.New("the command line is nowhere: the attack has to be adapted")
	}
	files, err := filepath.Glob(filepath.Join(b.main.dir, "archive", "*"))
	for _, f := range files {
		text, _ := os.ReadFile(f) // the compactor may have removed it
		if strings.Contains(string(text), secret) {
			return "", fmt.Errorf("%s has the password", filepath.Base(f))
		}
	}
	return "masked everywhere", err
}
