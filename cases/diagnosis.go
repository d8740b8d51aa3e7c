package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// report is what the lab reads of `culprit diagnose --json`.
type report struct {
	Start, End time.Time
	Findings   []finding
	Checked    []string
	Missing    []struct{ Rule, Statistic, Why string }
}

type finding struct {
	ID, Rule, Severity, Claim, Verify string
	Confidence, Explains              *float64
	Culprit                           struct {
		Kind, Name string
		PID        int
		NetNS      string
	}
	Evidence   []struct{ Value *float64 }
	Exonerated []string
	Fix        *struct{ Command, Undo, Risk string }
}

func (f finding) String() string {
	return fmt.Sprintf(
		"%s %s %s %q pid %d: %s", f.Severity, f.Rule, f.Culprit.Kind, f.Culprit.Name, f.Culprit.PID,
		f.Claim,
	)
}

// severe reports whether the finding accuses, rather than remarks.
func (f finding) severe() bool { return f.Severity == "high" || f.Severity == "medium" }

// on runs a command where a scene wants it asked: inside its host, or on the machine.
func (s *Scene) on(name string, args ...string) *exec.Cmd {
	if s.Where != nil {
		return s.Where.Command(name, args...)
	}
	return s.Lab.Command(name, args...)
}

// output runs a command and returns its standard output; its error contains its standard error, and
// it is ended with ctx.
func output(ctx context.Context, c *exec.Cmd) ([]byte, error) {
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Start(); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, said.Bytes())
		}
		return out.Bytes(), nil
	case <-ctx.Done():
		c.Process.Kill()
		<-done
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), ctx.Err(), said.Bytes())
	}
}

// diagnose runs the program's diagnosis of a scene over a time such as "5s".
func diagnose(ctx context.Context, s *Scene, program, over string) (report, error) {
	var r report
	out, err := output(ctx, s.on(program, "diagnose", "--for", over, "--json"))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("read the diagnosis: %w: %s", err, out)
	}
	return r, nil
}
