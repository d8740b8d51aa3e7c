package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"culprit/supervise"
	"culprit/view/prom"
	"culprit/view/web"
	"culprit/worker"
)

// testWorkers in the environment of a server makes its workers those of a test: unbounded for ones
// without the bounds of the packages, nonsense for ones that answer it.
const testWorkers = "CULPRIT_TEST_WORKERS"

// runTestWorker runs the worker of a test, if this process is one.
func runTestWorker() (isOne bool) {
	kind := os.Getenv(testWorkers)
	if kind == "" || !strings.HasPrefix(os.Getenv("CULPRIT_PROCESS"), workerName+":") {
		return false
	}
	control, err := supervise.Attach()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	setProcessName("culprit-" + workerName)
	if kind == "nonsense" {
		for err == nil {
			_, err = control.Stream().Write([]byte("nonsense"))
		}
		return true
	}
	err = runWorkerWith(control.Stream(), map[string]worker.Job{
		prom.JobName: prom.NewJob(version, false), web.ProfileJob: web.NewProfileJob(1 << 40),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// workerServer is a server that a test attacks.
type workerServer struct {
	*culprit
	base, token string
}

func startWorkerServer(t *testing.T, workers string) *workerServer {
	t.Helper()
	dir := t.TempDir()
	env := []string{"CULPRIT_REMOTE_WRITE_TOKEN=secret"}
	if workers != "" {
		env = append(env, testWorkers+"="+workers)
	}
	c := start(t, env, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0")
	u, err := url.Parse(c.waitForLine(t, "?token=", 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	s := &workerServer{culprit: c, token: u.Query().Get("token")}
	u.RawQuery = ""
	s.base = u.String()
	eventually(t, "a second is recorded", 20*time.Second, func() error {
		if _, body := s.query("count(culprit_cpu_time_seconds_total)"); !strings.Contains(
			body, `"value"`,
		) && workers != "nonsense" {
			return errors.New(body)
		}
		return nil
	})
	return s
}

// do sends a request and returns the status and the body; 0: there is no whole reply.
func (s *workerServer) do(method, path, kind string, body []byte) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("X-Culprit", "1")
	r.Header.Set("Content-Type", kind)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(b)
}

func (s *workerServer) query(text string) (int, string) {
	return s.do("GET", "api/v1/query?"+url.Values{"query": {text}}.Encode(), "", nil)
}

func (s *workerServer) form(path, text string) (int, string) {
	body := url.Values{"query": {text}, "timeout": {"5"}}.Encode()
	return s.do("POST", "api/v1/"+path, "application/x-www-form-urlencoded", []byte(body))
}

func (s *workerServer) upload(b []byte) (int, string) {
	return s.do("POST", "api/profiles", "application/octet-stream", b)
}

// status returns what the kernel says of a process, by key.
func status(t *testing.T, pid int) map[string]string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		out[key] = strings.TrimSpace(value)
	}
	return out
}

// peakMemory returns the largest resident memory that a process has had, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	kb, err := strconv.ParseInt(strings.Fields(status(t, pid)["VmHWM"])[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// bytesOf returns the bytes of a protocol buffer field.
func bytesOf(field int, b []byte) []byte {
	return append(append([]byte{byte(field<<3 | 2)}, varint(len(b))...), b...)
}

func varint(n int) (b []byte) {
	for ; n > 127; n >>= 7 {
		b = append(b, byte(n)|128)
	}
	return append(b, byte(n))
}

// inlinedBomb returns a pprof whose one sample has 10^12 frames: one location with many inlined
// lines, many times.
func inlinedBomb(t *testing.T) []byte {
	t.Helper()
	b := bytesOf(1, []byte{8, 1, 16, 2})
	for _, text := range []string{"", "samples", "count", "f"} {
		b = append(b, bytesOf(6, []byte(text))...)
	}
	b = append(b, bytesOf(5, []byte{8, 1, 16, 3})...)
	line := bytesOf(4, []byte{8, 1})
	b = append(b, bytesOf(4, append([]byte{8, 1}, bytes.Repeat(line, 1_000_000)...))...)
	b = append(b, bytesOf(2, append(
		bytesOf(1, bytes.Repeat([]byte{1}, 1_000_000)), bytesOf(2, []byte{1})...))...)
	return zipped(t, b)
}

func zipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// manyStacks returns folded stacks of n functions that are all different, packed.
func manyStacks(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "main;function_%d_%s;g%d 1\n", i, strings.Repeat("x", 200), i)
	}
	return zipped(t, b.Bytes())
}

// hostileRequests are requests that take any time and memory without the bounds of the packages.
func hostileRequests(t *testing.T) map[string]func(*workerServer) (int, string) {
	doubled := `label_replace(culprit_process_info,"a","x","","")`
	joined := `label_replace(vector(1),"a","x","","")`
	for range 27 {
		doubled = fmt.Sprintf(`label_replace(%s,"a","$1$1","a","(.*)")`, doubled)
		joined = fmt.Sprintf(`label_join(%s,"a","","a","a")`, joined)
	}
	bomb, stacks := inlinedBomb(t), manyStacks(t, 1_500_000)
	deep := strings.Repeat("(", 2400) + "1" + strings.Repeat(")", 2400)
	repeated := "x"
	for i := range 8 {
		repeated += fmt.Sprintf(` or x{a=~"(%d%s){1000}"}`, i, strings.Repeat("abcdefgh", 400))
	}
	return map[string]func(*workerServer) (int, string){
		"label_replace doubles": func(s *workerServer) (int, string) {
			return s.form("query", "count("+doubled+")")
		},
		"label_join doubles": func(s *workerServer) (int, string) {
			return s.form("query", "count("+joined+")")
		},
		"format_query of 2,400 parentheses": func(s *workerServer) (int, string) {
			return s.form("format_query", deep)
		},
		"a regular expression": func(s *workerServer) (int, string) {
			return s.form("query", repeated)
		},
		"a subquery of many steps": func(s *workerServer) (int, string) {
			return s.form("query", "max_over_time(vector(1)[100y:1ms])")
		},
		"a profile of 10^12 frames": func(s *workerServer) (int, string) { return s.upload(bomb) },
		"a profile of long names":   func(s *workerServer) (int, string) { return s.upload(stacks) },
	}
}

// The requests that ended a server are survived, with and without the bounds of the packages; the
// memory of the server stays small, and other requests are answered.
func TestHostileWork(t *testing.T) {
	t.Parallel()
	for _, workers := range []string{"", "unbounded"} {
		t.Run("workers "+workers, func(t *testing.T) {
			s := startWorkerServer(t, workers)
			server := children(t, s.Process.Pid)["culprit-server"]
			before := peakMemory(t, server)
			for name, send := range hostileRequests(t) {
				t.Run(name, func(t *testing.T) {
					began := time.Now()
					code, body := send(s)
					t.Logf("%.1f s: status %d: %.200s", time.Since(began).Seconds(), code, body)
					if code == 0 || code == http.StatusInternalServerError {
						t.Errorf("status %d: %.300s", code, body)
					}
					if workers != "" && code == http.StatusServiceUnavailable &&
						!strings.Contains(body, "ask for a") && !strings.Contains(body, "culprit") &&
						!strings.Contains(body, "timed out") {
						t.Errorf("it does not say what to do: %s", body)
					}
					if took := time.Since(began); took > 30*time.Second {
						t.Errorf("it took %v", took)
					}
					if code, body := s.query("1+1"); code != 200 || !strings.Contains(body, `"2"`) {
						t.Errorf("the next query: %d %s", code, body)
					}
				})
			}
			if got := children(t, s.Process.Pid)["culprit-server"]; got != server {
				t.Errorf("the server was process %d and is %d", server, got)
			}
			if grown := peakMemory(t, server) - before; grown > 100<<20 {
				t.Errorf("the server has grown by %d MB", grown>>20)
			}
		})
	}
}

// A worker that is killed in the middle of its work or answers nonsense is a 503 that says what to
// do, never the end of the server.
func TestWorkerDies(t *testing.T) {
	s := startWorkerServer(t, "unbounded")
	server := children(t, s.Process.Pid)["culprit-server"]
	var both sync.WaitGroup
	codes, bodies := make([]int, 2), make([]string, 2)
	both.Go(func() {
		deep := url.Values{"query": {strings.Repeat("(", 4000) + "1" + strings.Repeat(")", 4000)}}
		codes[0], bodies[0] = s.do("POST", "api/v1/format_query",
			"application/x-www-form-urlencoded", []byte(deep.Encode()))
	})
	eventually(t, "a worker works", 50*time.Second, func() error {
		for pid, name := range childList(t, s.Process.Pid) {
			if name == "culprit-worker" && cpuTicks(t, pid) >= 20 {
				return syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		return errors.New("none does")
	})
	both.Wait()
	var reply struct{ Status, ErrorType, Error string }
	if err := json.Unmarshal([]byte(bodies[0]), &reply); err != nil ||
		codes[0] != http.StatusServiceUnavailable || reply.ErrorType != "unavailable" ||
		!strings.Contains(reply.Error, "ask for a shorter time, fewer rows, or a longer step") {
		t.Errorf("a killed worker: %d %s", codes[0], bodies[0])
	}
	if now := children(t, s.Process.Pid)["culprit-server"]; now != server {
		t.Error("the server has ended")
	}
	s.waitForLine(t, "a worker ended (signal: killed)", 10*time.Second)

	broken := startWorkerServer(t, "nonsense")
	if code, body := broken.query("1"); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, "ask for a shorter time") {
		t.Errorf("a query of nonsense: %d %s", code, body)
	}
	if code, body := broken.upload([]byte("main;a 1\n")); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, "culprit flame") {
		t.Errorf("a profile of nonsense: %d %s", code, body)
	}
	if code, _ := broken.do("GET", "api/health", "", nil); code != http.StatusOK {
		t.Errorf("the server answers with %d", code)
	}
}

// cpuTicks returns the user time of a process in clock ticks.
func cpuTicks(t *testing.T, pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0 // it has ended
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	n, err := strconv.Atoi(strings.Fields(rest)[11])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A worker has no right at all: what the kernel says of it.
func TestWorkerIsConfined(t *testing.T) {
	s := startWorkerServer(t, "")
	all := children(t, s.Process.Pid)
	pid := all["culprit-worker"]
	if pid == 0 {
		t.Fatalf("there is no worker: %v", all)
	}
	got := status(t, pid)
	for key, want := range map[string]string{
		"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
	} {
		if got[key] != want {
			t.Errorf("%s is %s, want %s", key, got[key], want)
		}
	}
	if server := status(t, all["culprit-server"]); got["Uid"] != server["Uid"] {
		t.Errorf("its users are %s, those of the server %s", got["Uid"], server["Uid"])
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Max data size 268435456 268435456", "Max cpu time 120 120"} {
		if !strings.Contains(strings.Join(strings.Fields(string(limits)), " "), want) {
			t.Errorf("no %q in\n%s", want, limits)
		}
	}
	score := func(pid int) int {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if a, b := score(pid), score(all["culprit-server"]); a <= b {
		t.Errorf("oom_score_adj is %d, that of the server %d", a, b)
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Skip("needs: root") // the process has changed its user
	}
	if bytes.Contains(environ, []byte("secret")) {
		t.Error("it has the token of remote write")
	}
	// Only sockets, the runtime's own files, and /dev/null and the pipe of its errors.
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, f.Name()))
		if err == nil && !strings.HasPrefix(to, "socket:") && !strings.HasPrefix(to, "anon_inode:") &&
			!strings.HasPrefix(to, "pipe:") && to != "/dev/null" &&
			!strings.HasPrefix(to, "/sys/fs/cgroup/") {
			t.Errorf("descriptor %s is %s", f.Name(), to)
		}
	}
	// It ends with the server, also when that is killed.
	if err := syscall.Kill(all["culprit-server"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the worker ends", 10*time.Second, func() error {
		for _, one := range maps.All(children(t, s.Process.Pid)) {
			if one == pid {
				return errors.New("it runs")
			}
		}
		return nil
	})
}

// There are never more than worker.MaxWorkers of them.
func TestWorkersAreBounded(t *testing.T) {
	s := startWorkerServer(t, "")
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if code, body := s.query("count({__name__=~\"culprit_c.*\"})"); code != 200 &&
				code != http.StatusServiceUnavailable {
				t.Errorf("%d %s", code, body)
			}
		})
	}
	most := 0
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for running := true; running; {
		most = max(most, countChildren(t, s.Process.Pid, "culprit-worker"))
		select {
		case <-done:
			running = false
		default:
		}
	}
	if most == 0 || most > worker.MaxWorkers {
		t.Errorf("%d workers at the same time", most)
	}
}

// countChildren returns how many children of a process have a name.
func countChildren(t *testing.T, pid int, name string) (n int) {
	for _, of := range childList(t, pid) {
		if of == name {
			n++
		}
	}
	return n
}
