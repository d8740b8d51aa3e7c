// Command check runs each command of culprit on the running kernel and checks that the numbers are
// sane. A load runs beside it, so that no command has an empty result. It prints one Result per
// line as JSON.
//
//	check -culprit ./culprit -disk /dev/loop0
//
// A command that this kernel is too old for has to say which version brought what it needs. The
// tests of cases run it on emulated kernels and make docs/KERNELS.md of the results.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A Result is what came of one check.
type Result struct {
	Row     string  // of the table in docs/KERNELS.md
	Cell    string  // yes, or the version of Linux that brought what it needs
	Problem string  // "" where the check holds
	Seconds float64 // that it took
}

// A check is one row of the table.
type check struct {
	row  string
	args []string                    // of culprit; nil where run is set
	run  func(*scene, *Result) error // in place of args
	sane func(b []byte) error        // looks at standard output; nil takes all of it
	// Runs first, with nothing beside it: for limits of memory, and for samples in time.
	alone bool
	// What a note says that an older kernel lacks; "" where nothing may be lacking.
	lesser string
}

// A scene is what checks share.
type scene struct {
	culprit string
	dir     string // for what is recorded
	load    *load
}

// atOnce is how many commands run beside each other: most of their time they wait for the next
// interval.
const atOnce = 3

// commandTimeout is how long a command may take on a busy emulated machine.
const commandTimeout = 420 * time.Second

func main() {
	culprit := flag.String("culprit", "./culprit", "the program")
	disk := flag.String(
		"disk", "", "disk, or file on one, that is written over; \"\" leaves disks idle",
	)
	alone := flag.Bool("alone", false, "run the checks that nothing may run beside, and no others")
	only := flag.String("only", "", "check the rows that match this expression alone")
	flag.Parse()
	if err := checkAll(*culprit, *disk, *only, *alone); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func checkAll(culprit, disk, only string, alone bool) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(culprit)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "check")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := startLoad(dir, disk)
	if err != nil {
		return err
	}
	defer l.stop()
	s := &scene{culprit: path, dir: dir, load: l}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	if alone {
		slots = make(chan struct{}, 1)
	}
	for _, c := range checks() {
		if c.alone != alone || !pattern.MatchString(c.row) {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			r := s.check(c)
			mu.Lock()
			defer mu.Unlock()
			json.NewEncoder(os.Stdout).
				Encode(r)
			//nolint:errcheck // the reader reports the missing row
		})
	}
	all.Wait()
	return nil
}

// check runs one check.
func (s *scene) check(c check) (r Result) {
	r = Result{Row: c.row, Cell: "yes"}
	began := time.Now()
	defer func() { r.Seconds = time.Since(began).Seconds() }()
	var out, errs []byte
	var err error
	if c.run != nil {
		err = c.run(s, &r)
	} else if out, errs, err = s.ask(c.args...); err == nil && c.sane != nil {
		if err = c.sane(out); err != nil {
			err = fmt.Errorf("%w in %.1500s", err, out)
		}
	}
	said := string(errs) + string(out)
	var failed *failure
	switch version := brought.FindStringSubmatch(said); {
	case errors.As(err, &failed) && failed.version != "":
		r.Cell = "from " + failed.version
	case err == nil && version != nil && c.lesser != "" && strings.Contains(said, c.lesser):
		r.Cell = fmt.Sprintf("yes; %s from %s", c.lesser, version[1])
	case err != nil:
		r.Problem = err.Error()
	}
	if m := never.FindString(said); m != "" && r.Problem == "" {
		r.Problem = fmt.Sprintf("it says %q in %.1500s", m, said)
	}
	return r
}

// brought matches how a message names the version that brought what a kernel lacks.
var brought = regexp.MustCompile(`\b(\d\.\d+) brought it|came with (\d\.\d+)`)

// never matches what no message may say on a kernel that culprit runs on, to root.
var never = regexp.MustCompile(
	`forbidden by this kernel|argument list too long|MEMLOCK may be too low|invalid argument|panic:|unknown func`,
)

// A failure is a command that ended with another status than 0.
type failure struct {
	args    []string
	status  error
	said    string
	version string // that its message names; "" where none
}

func (f *failure) Error() string {
	return fmt.Sprintf("culprit %s: %v: %.1500s", strings.Join(f.args, " "), f.status, f.said)
}

// ask runs a command of culprit.
func (s *scene) ask(args ...string) (out, errs []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	return run(exec.CommandContext(ctx, s.culprit, args...), args)
}

// run runs a command and returns what it prints.
func run(cmd *exec.Cmd, args []string) (out, errs []byte, err error) {
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil {
		f := &failure{args: args, status: err, said: e.String()}
		if m := brought.FindStringSubmatch(f.said); m != nil {
			f.version = m[1] + m[2]
		}
		return o.Bytes(), e.Bytes(), f
	}
	return o.Bytes(), e.Bytes(), nil
}
