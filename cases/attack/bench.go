package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// An attack is one row of the table.
type attack struct {
	name string // "S3"
	role string // what the attacker needs
	what string
	want string // the expected result
	// run returns the result. An error means that the attack succeeded; one of errNotLooked, that
	// it could not be tried here.
	run func(*bench) (got string, err error)
}

// errNotLooked is the error of an attack that cannot be tried here.
var errNotLooked = errors.New("not looked")

// attacks returns all attacks in the order in which they run.
func attacks() []attack {
	var all []attack
	for _, group := range [][]attack{
		httpAttacks(), tokenAttacks(), queryAttacks(), uploadAttacks(), floodAttacks(),
		processAttacks(), scriptAttacks(), frameAttacks(), clientAttacks(), tlsAttacks(),
		killAttacks(), directoryAttacks(), archiveAttacks(),
	} {
		all = append(all, group...)
	}
	return all
}

func known(name string) bool {
	for _, a := range attacks() {
		if a.name == name {
			return true
		}
	}
	return false
}

func list(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, a := range attacks() {
		fmt.Fprintf(t, "%s\t%s\t%s\n", a.name, a.role, a.what)
	}
	_ = t.Flush() // to a terminal
}

// bench is what the attacks share.
type bench struct {
	options
	dir   string // of this run, removed at its end
	bin   string // the program under test
	group string // directory of the control group of servers
	far   string // namespace of another machine
	main  *server
	kids  []*exec.Cmd // helpers that the current attack has started
	made  int         // directories made for servers
}

// runAll runs the attacks and prints the table.
func (b *bench) runAll() (status int, err error) {
	if b.main, err = b.serve(b.newDir(), "--command-lines"); err != nil {
		return 1, err
	}
	start, failed, tried := time.Now(), 0, 0
	fmt.Printf("%-5s %-6s %4s %6s  %s\n", "name", "", "lost", "time", "attack -> result (expected)")
	for _, a := range attacks() {
		if !b.wanted(a.name) {
			continue
		}
		tried++
		if !b.runOne(a) {
			failed++
		}
	}
	fmt.Printf("\n%d attacks in %v, %d succeeded\n", tried,
		time.Since(start).Round(time.Second), failed)
	if failed > 0 {
		return 1, nil
	}
	return 0, nil
}

// mostOfProcess is the highest resident memory of a process in any attack. Buffers of scripts are
// mapped and count, up to 256 MB twice.
const mostOfProcess = 600e6

// runOne runs an attack, prints its row, and reports whether it held.
func (b *bench) runOne(a attack) bool {
	if b.main.gone() { // an attack before this one ended it
		var err error
		if b.main, err = b.serve(b.newDir(), "--command-lines"); err != nil {
			fmt.Println("FAIL", a.name, err)
			return false
		}
	}
	began, w := time.Now(), b.watch()
	got, err := a.run(b)
	b.endHelpers()
	memory := w.stop()
	lost, lostErr := b.main.lost(began, time.Now())
	verdict := "held"
	switch {
	case errors.Is(err, errNotLooked):
		verdict, got = "-", err.Error()
	case err != nil:
		verdict, got = "FAILED", err.Error()
	case lostErr != nil:
		verdict, got = "FAILED", "the server does not answer after it: "+lostErr.Error()
	case lost > 0:
		verdict = "FAILED"
	case w.largest() > mostOfProcess:
		verdict, got = "FAILED", "a process takes too much memory"
	case w.killed > 0:
		verdict, got = "FAILED", "the kernel ended a process of the server for lack of memory"
	}
	fmt.Printf("%-5s %-6s %3ds %5.1fs  %s, by %s -> %s (%s)\n%25s%s\n", a.name, verdict, lost,
		time.Since(began).Seconds(), a.what, a.role, got, a.want, "", memory)
	return verdict != "FAILED"
}

// newDir returns a path for the directory of a server.
func (b *bench) newDir() string {
	b.made++
	return filepath.Join(b.dir, fmt.Sprint("record", b.made))
}

// helper starts a program of the attacker, which ends with the attack at the latest.
func (b *bench) helper(c *exec.Cmd) error {
	var said bytes.Buffer
	if c.Stderr == nil {
		c.Stderr = &said
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("start %s: %w", strings.Join(c.Args, " "), err)
	}
	b.kids = append(b.kids, c)
	return nil
}

func (b *bench) endHelpers() {
	for _, c := range b.kids {
		_ = c.Process.Kill() // it may have ended
	}
	for _, c := range b.kids {
		_ = c.Wait() // killed
	}
	b.kids = nil
}

// end ends what runs. The lab's guardian ends what remains.
func (b *bench) end() {
	b.endHelpers()
	if b.main != nil {
		b.main.kill()
	}
}

// tool runs the program under test within the control group and returns its output, its messages
// and its exit status: -1 if a signal ended it. The error means that it did not start or took
// longer than limit.
func (b *bench) tool(limit time.Duration, args ...string) (out, said string, status int,
	err error) {
	return b.toolWith(limit, nil, args...)
}

// toolWith is tool with more environment.
func (b *bench) toolWith(
	limit time.Duration, env []string, args ...string,
) (out, said string, status int, err error) {
	c := b.grouped(append([]string{b.bin}, args...)...)
	c.Env = append(os.Environ(), env...)
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	if err := c.Start(); err != nil {
		return "", "", 0, err
	}
	timer := time.AfterFunc(limit, func() { _ = c.Process.Kill() })
	err = c.Wait()
	if !timer.Stop() {
		return o.String(), e.String(), -1, fmt.Errorf("%s runs after %v",
			strings.Join(args, " "), limit)
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return "", "", 0, err
	}
	return o.String(), e.String(), c.ProcessState.ExitCode(), nil
}

// must is tool for a command that must succeed.
func (b *bench) must(limit time.Duration, args ...string) (out string, err error) {
	out, said, status, err := b.tool(limit, args...)
	if err != nil || status != 0 {
		return "", failed(err, "culprit %s: status %d: %s", args[0], status, said)
	}
	return out, nil
}

// failed returns an error with a text, and err if it is not nil.
func failed(err error, format string, args ...any) error {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	if err == nil {
		return errors.New(text)
	}
	return fmt.Errorf("%s: %w", text, err)
}

// grouped prepares a command that runs in the control group of servers.
func (b *bench) grouped(args ...string) *exec.Cmd {
	const enter = `echo $$ > "$0" && exec "$@"`
	procs := filepath.Join(b.group, "cgroup.procs")
	return exec.Command("sh", append([]string{"-c", enter, procs}, args...)...)
}
