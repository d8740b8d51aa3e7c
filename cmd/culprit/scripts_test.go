package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/measure"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// needsTracing skips the test if no script can run here.
func needsTracing(t *testing.T) {
	t.Helper()
	if err := feature.RawTracepoints.Have(kernel.Root{}); errors.Is(err, measure.ErrDenied) {
		t.Skip("needs: root")
	} else if err != nil {
		t.Skip("needs: kernel feature raw tracepoints")
	}
}

// scriptAnswer is the union of the API's answers about scripts, datasets and changes.
type scriptAnswer struct {
	ID               uint32
	Name, State, Why string
	Output           string
	CPU              *float64
	Stats            []struct{ ID, Unit string }
	Error            struct{ Message, Code, Hint string }
	Scripts          []scriptAnswer
	Datasets         []struct {
		ID              uint32
		Sentence, State string
		CPU             *float64
	}
	Trouble []string
	Changes []struct{ Who, What, Sentence string }
}

// api sends a request to the server of a directory by its socket. status 0: no answer.
func api(t *testing.T, dir, method, path, body string) (status int, answer scriptAnswer) {
	t.Helper()
	h := http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", socketPath(dir))
			},
		},
		Timeout: 30 * time.Second,
	}
	r, err := http.NewRequestWithContext(
		t.Context(), method, "http://culprit/api/"+path, strings.NewReader(body),
	)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Culprit", "1")
	r.Header.Set("Content-Type", "application/json")
	res, err := h.Do(r)
	if err != nil {
		return 0, answer
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return res.StatusCode, answer
}

// calls makes n system calls of getpgid in a row, over more than a second.
func calls(n int) {
	for i := range n {
		unix.Getpgid(0) //nolint:errcheck // only the call matters
		if i%(n/4) == 0 {
			time.Sleep(400 * time.Millisecond)
		}
	}
}

// total returns the sum of the recorded amounts of a query without a breakdown; NaN: no answer.
func total(t *testing.T, dir, query string) float64 {
	t.Helper()
	r, err := openRecorded(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	held := r.Held()
	held.Start = max(held.Start, held.End.Add(-10*measure.Minute))
	var reader measure.Reader
	switch r := r.(type) {
	case *serverRecord:
		reader = r.client
	case *archiveRecord:
		reader = r.store
	}
	q, err := measure.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	q.Over, q.Step = held, measure.Second
	a, err := reader.Ask(t.Context(), q)
	if err != nil {
		return measure.NaN
	}
	sum := 0.0
	for _, s := range a.Series {
		for c, v := range s.Values {
			if v == v {
				sum += v * a.Elapsed[c].Seconds()
			}
		}
	}
	return sum
}

// programsOf returns the BPF programs that a process and its children have open:
// /proc/PID/fdinfo, proc(5).
func programsOf(t *testing.T, pid int) (all []ebpf.ProgramID) {
	t.Helper()
	for _, f := range descriptors(t, pid) {
		b, _ := os.ReadFile(f) // it may have been closed
		for line := range strings.Lines(string(b)) {
			var id uint32
			if _, err := fmt.Sscanf(line, "prog_id: %d", &id); err == nil {
				all = append(all, ebpf.ProgramID(id))
			}
		}
	}
	return all
}

// TestScriptsOfAServer follows a script of a server. A mistake is refused with its position. The
// archive contains exactly the counts. The script starts again with the server. A stopped script's
// record can still be read. A killed server leaves nothing in the kernel.
func TestScriptsOfAServer(t *testing.T) {
	needsTracing(t)
	dir := t.TempDir()
	s := start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0")
	s.waitForLine(t, "?token=", 20*time.Second)

	for body, want := range map[string]string{
		`{"text":"syscall::getpgid:entry { @[execnam] = count(); }"}`:          "unknown-name did you mean execname?",
		`{"text":"no::such:probe { }"}`:                                        "",
		`{"text":"BEGIN { system(\"true\"); }"}`:                               "destructive",
		`{"text":"#pragma D option destructive\nBEGIN { system(\"true\"); }"}`: "destructive",
		`{"text":"BEGIN { @ = count(); }","name":"No name"}`:                   "bad-name",
		`{"text":"BEGIN { @ = count(); }","name":"x","budget":-1}`:             "bad-request",
	} {
		if status, got := api(t, dir, "POST", "scripts", body); status != 400 ||
			!strings.Contains(got.Error.Code+" "+got.Error.Hint, want) {
			t.Errorf("%s: status %d, %+v", body, status, got.Error)
		}
	}
	text := fmt.Sprintf(
		`syscall::getpgid:entry /pid == %d/ { @calls[probefunc] = count(); @[execname] = quantize(arg0); } BEGIN { printf("it begins\n"); }`,
		os.Getpid(),
	)
	body, err := json.Marshal(
		map[string]any{"text": text, "name": "mine", "record": true, "budget": 0.5},
	)
	if err != nil {
		t.Fatal(err)
	}
	status, mine := api(t, dir, "POST", "scripts", string(body))
	if status != 200 || mine.State != "running" || len(mine.Stats) != 2 ||
		mine.Stats[0].ID != "trace.mine.calls" {
		t.Fatalf("status %d: %+v", status, mine)
	}
	if status, same := api(t, dir, "POST", "scripts", string(body)); status != 200 ||
		same.ID != mine.ID {
		t.Errorf("the same again: status %d, %d and %d", status, same.ID, mine.ID)
	}
	if status, other := api(t, dir, "POST", "scripts", `{"text":"BEGIN { @ = count(); }","name":"mine"}`); status != 409 ||
		!strings.Contains(other.Error.Message, "mine") {
		t.Errorf("another by its name: status %d, %+v", status, other.Error)
	}
	// ticked waits for a recorded tick, so that the datasets contain all later calls.
	ticked := func(since measure.Time) {
		t.Helper()
		eventually(t, "the script is recorded", 30*time.Second, func() error {
			client, err := dial(dir)
			if err != nil {
				return err
			}
			defer client.Close()
			got, err := recordedRows(
				client, "trace.mine.calls",
				measure.Interval{Start: since, End: measure.Time(time.Now().UnixNano())},
			)
			if err == nil && len(got) == 0 {
				err = errors.New("no second of it")
			}
			return err
		})
	}
	ticked(measure.Time(time.Now().UnixNano()))
	const first, second = 4000, 2000
	calls(first)
	eventually(t, "all calls are recorded", 20*time.Second, func() error {
		if n := total(t, dir, "trace.mine.calls"); n < first-0.5 || n > first+0.5 {
			return fmt.Errorf("%v of %d calls", n, first)
		}
		return nil
	})
	if _, all := api(t, dir, "GET", "scripts", ""); len(all.Scripts) != 1 ||
		!strings.Contains(all.Scripts[0].Output, "it begins") ||
		all.Scripts[0].CPU == nil {
		t.Errorf("the scripts are %+v", all.Scripts)
	}

	// Killed: nothing stays in the kernel. The last two seconds may be lost, so the test waits for
	// three more.
	counted := measure.Time(time.Now().UnixNano())
	eventually(t, "three seconds are recorded after the calls", 20*time.Second, func() error {
		client, err := dial(dir)
		if err != nil {
			return err
		}
		defer client.Close()
		if end := (&serverRecord{client}).Held().End; end < counted.Add(3*measure.Second) {
			return fmt.Errorf("recorded up to %v", end)
		}
		return nil
	})
	held := programsOf(t, s.Process.Pid)
	if len(held) == 0 {
		t.Error("the server holds no program")
	}
	if err := s.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.end(t, 10*time.Second)
	eventually(t, "its programs are gone from the kernel", 10*time.Second, func() error {
		for _, id := range held {
			if p, err := ebpf.NewProgramFromID(id); err == nil {
				p.Close()
				return fmt.Errorf("program %d is still there", id)
			} else if !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		return nil
	})

	// A second server starts the script again and has its record; the script is then stopped.
	s = start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0")
	s.waitForLine(t, "?token=", 20*time.Second)
	before := total(t, dir, "trace.mine.calls")
	if before < first-0.5 {
		t.Errorf("of %d calls the record has %v after the server was killed", first, before)
	}
	ticked(measure.Time(time.Now().UnixNano()))
	calls(second)
	if status, mine = api(t, dir, "POST", fmt.Sprintf("scripts/%d/stop", mine.ID), "{}"); status != 200 ||
		mine.State != "stopped" {
		t.Fatalf("stop: status %d, %+v", status, mine)
	}
	if n := total(t, dir, "trace.mine.calls"); n < before+second-0.5 || n > before+second+0.5 {
		t.Errorf("%v calls are recorded, want %v and %d", n, before, second)
	}
	_, all := api(t, dir, "GET", "datasets", "")
	for _, d := range all.Datasets {
		if strings.HasPrefix(d.Sentence, "trace.mine.") && d.State != "suspended" {
			t.Errorf("%s is %s", d.Sentence, d.State)
		}
	}
	calls(100) // not counted: the script is stopped
	at := time.Now().Add(-time.Minute).Format(time.RFC3339)
	status, out, errs := call(
		t, "stat", "trace.mine.calls by probefunc", "--dir", dir, "--from", at, "--json",
	)
	if status != 0 || !bytes.Contains(out, []byte(`"probefunc":"getpgid"`)) {
		t.Errorf("culprit stat of the record: status %d, %s%s", status, out, errs)
	}
	if status, _ := api(t, dir, "POST", fmt.Sprintf("scripts/%d/remove", mine.ID), "{}"); status != 200 {
		t.Errorf("remove: status %d", status)
	}
	if _, all := api(t, dir, "GET", "scripts", ""); len(all.Scripts) != 0 {
		t.Errorf("there are still %+v", all.Scripts)
	}
	_, changes := api(t, dir, "GET", "changes", "")
	var actions []string
	for _, c := range changes.Changes {
		if c.Sentence == "script mine" {
			actions = append(actions, c.What)
		}
	}
	if fmt.Sprint(actions) != "[started stopped removed]" {
		t.Errorf("the audit has %v", actions)
	}
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := s.end(t, 20*time.Second); status != 0 {
		t.Errorf("status %d", status)
	}
	status, out, errs = call(
		t, "stat", "trace.mine.calls by probefunc", "--dir", dir, "--from", at, "--json",
	)
	if status != 0 || !bytes.Contains(out, []byte(`"probefunc":"getpgid"`)) {
		t.Errorf(
			"culprit stat of the archive of the ended server: status %d, %s%s", status, out, errs,
		)
	}
}
