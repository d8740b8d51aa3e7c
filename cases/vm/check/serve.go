package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// recordFor is how long serve records at least; the first diagnosis is of ten seconds.
const recordFor = 11 * time.Second

// serve records for some seconds, with a traced statistic that is added meanwhile, and holds what
// is asked of the running server and of its directory against what the load does.
func serve(s *scene, _ *Result) error {
	dir := filepath.Join(s.dir, "served")
	cmd := exec.Command(
		s.culprit, "serve", "--dir", dir, "--listen", "127.0.0.1:7410", "--budget", "0",
	)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return err
	}
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	asked := s.askServer(dir)
	time.Sleep(recordFor - time.Since(began))
	cmd.Process.Signal(unix.SIGTERM) //nolint:errcheck // its end is waited for
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("serve: %w: %s", err, said.String())
		}
	case <-time.After(commandTimeout):
		cmd.Process.Kill() //nolint:errcheck // it is reported
		return errors.New("serve goes on")
	}
	if asked != nil {
		return asked
	}
	for _, q := range []struct {
		name string
		args []string
		sane func([]byte) error
	}{
		{"recorded tool", []string{"tcp", "--from", "-1h", "--dir", dir, "--json"}, contains(`"in_segments_per_s":`)},
		{"recorded profile", recordedProfile(dir), spins},
		{"traced statistic", []string{"stat", "syscall.count", "--from", "-1h", "--dir", dir, "--json"}, positiveValue},
	} {
		out, errs, err := s.ask(q.args...)
		if err == nil {
			err = q.sane(out)
		}
		if err != nil {
			return fmt.Errorf(
				"%s: %w in %.1500s%.1500s; serve said %.1500s", q.name, err, out, errs,
				said.String(),
			)
		}
	}
	return nil
}

// askServer queries the running server until it has recorded some seconds of each kind and a
// diagnosis. It returns the last error when that takes longer than commandTimeout.
func (s *scene) askServer(dir string) error {
	var err error
	added := false
	began := time.Now()
	for ; time.Since(began) < commandTimeout; time.Sleep(500 * time.Millisecond) {
		if !added {
			_, _, err = s.ask(
				"datasets", "add", "syscall.count by process", "--step", "1s", "--dir", dir,
			)
			added = err == nil
			continue
		}
		if err = answered(dir); err != nil {
			continue
		}
		// An emulated machine takes seconds to read the unwind tables of the load.
		var out []byte
		if out, _, err = s.ask(recordedProfile(dir)...); err == nil {
			err = spins(out)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// recordedProfile returns the arguments that print all recorded stacks of dir.
func recordedProfile(dir string) []string {
	return []string{"profile", "--from", "-1h", "--to", "now", "--dir", dir, "--format", "folded"}
}

// spins returns an error unless folded stacks contain system calls and the load's loop.
func spins(folded []byte) error { return contains("do_syscall_64", "main.spin")(folded) }

// answered returns nil once CPU time, samples, a traced statistic and a diagnosis are recorded. On
// a starved machine each comes late.
func answered(dir string) error {
	for _, q := range []struct {
		sentence string
		most     float64
		seconds  int // that have a value above 0
	}{
		{`cpu.time where mode != "idle"`, 2.2, 3},
		{"cpu.stack.samples by process", 1e6, 1},
		{"syscall.count", 1e9, 1},
	} {
		var a struct {
			Series []struct{ Values []*float64 }
			Notes  json.RawMessage
			Loss   json.RawMessage
		}
		values := url.Values{
			"q": {q.sentence}, "from": {"-20m"}, "to": {"now"}, "step": {"1000"},
		}
		if err := get(dir, "api/ask?"+values.Encode(), &a); err != nil {
			return err
		}
		known := 0
		for _, series := range a.Series {
			for _, v := range series.Values {
				if v != nil && *v > q.most {
					return fmt.Errorf("%s is %v", q.sentence, *v)
				}
				if v != nil && *v > 0 {
					known++
				}
			}
		}
		if known < q.seconds {
			return fmt.Errorf("%s is above 0 in %d seconds; notes %s, loss %s",
				q.sentence, known, a.Notes, a.Loss)
		}
	}
	var d map[string]any
	return get(dir, "api/diagnosis", &d)
}

// get asks the server whose token is in a directory.
func get(dir, path string, into any) error {
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		return err
	}
	q, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:7410/"+path, nil)
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	answer, err := (&http.Client{Timeout: 20 * time.Second}).Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, answer.Status, b)
	}
	return json.Unmarshal(b, into)
}

// positiveValue is satisfied with an interval that has a value above 0.
func positiveValue(b []byte) error {
	var f frame
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	return positive("value")(f.Rows)
}
