package cases

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Of namespaces, cgroups and folders; the owner's process id follows.
	namePrefix = "culab"
	stateDir   = "/var/tmp"        // on disk on nearly every machine, unlike /tmp
	envRun     = "CULPRIT_LAB_RUN" // marks every process of a run
	envAct     = "CULPRIT_LAB_ACT" // makes this binary a load helper, see Act
	// cgroup.procs files that the helper enters first, colon-separated.
	envCgroup = "CULPRIT_LAB_INTO"
	envGoMem  = "GOMEMLIMIT" // never inherited: it would bend the helpers
)

// Lab is one run: what it made, and the guardian that will remove it. Building methods keep the
// first error, later ones do nothing then; ask Err once at the end. A Lab is not safe for use by
// two goroutines, except Close.
type Lab struct {
	run      string // culab1234
	dir      string // stateDir/run
	lock     *os.File
	guardian *exec.Cmd
	pipe     io.WriteCloser // its closing sets the guardian to work
	said     bytes.Buffer   // what the guardian could not remove
	hosts    []*Host
	loads    []*Load
	err      error
	closing  sync.Once
	closed   error
}

// Needs says what the lab lacks here: "" when a run can be made, else a reason such as "root". It
// changes nothing.
func Needs() string {
	if os.Geteuid() != 0 {
		return "root (namespaces, traffic shaping, cgroups)"
	}
	for _, tool := range []string{"ip", "tc", "ethtool"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "tool " + tool
		}
	}
	if _, err := os.Stat("/proc/self/ns/net"); err != nil {
		return "kernel feature network-namespaces"
	}
	return ""
}

// New removes what killed runs left behind, then starts a run. The calling program must call Act
// first thing in main or TestMain: the guardian and the loads are that program started again. An
// error means that the machine or a right is missing, or that the guardian did not start. The
// caller closes the Lab.
func New() (*Lab, error) {
	if why := Needs(); why != "" {
		return nil, errors.New("the lab needs " + why)
	}
	// One at a time, or a run that has its folder and not yet its lock would be taken for one whose
	// owner is dead.
	turn, err := os.OpenFile(filepath.Join(stateDir, "."+namePrefix), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the lock of all runs: %w", err)
	}
	defer turn.Close()
	lock := func() error { return unix.Flock(int(turn.Fd()), unix.LOCK_EX) }
	if err := ignoringEINTR(lock); err != nil {
		return nil, fmt.Errorf("lock %s: %w", turn.Name(), err)
	}
	removeLeftovers()
	l := &Lab{run: fmt.Sprintf("%s%d", namePrefix, os.Getpid())}
	// A program may make labs one after another; each gets a name of its own.
	for n := 1; ; n++ {
		l.dir = filepath.Join(stateDir, l.run)
		err := os.Mkdir(l.dir, 0o755)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrExist) || n > 100 {
			return nil, fmt.Errorf("make the run's folder: %w", err)
		}
		l.run = fmt.Sprintf("%s%d.%d", namePrefix, os.Getpid(), n)
	}
	if l.lock, err = os.Create(filepath.Join(l.dir, "owner")); err != nil {
		return nil, fmt.Errorf("make the run's lock: %w", err)
	}
	if err = unix.Flock(int(l.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("lock %s: %w", l.lock.Name(), err)
	}
	if err = os.MkdirAll(filepath.Join(l.dir, "bin"), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of names: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's file: %w", err)
	}
	l.guardian = exec.Command(self)
	l.guardian.Env = l.environ("guardian", nil)
	l.guardian.Stdout = &l.said
	l.guardian.Stderr = &l.said
	l.guardian.SysProcAttr = &unix.SysProcAttr{
		Setsid: true,
	} // a Ctrl-C meant for the owner must not end it
	if l.pipe, err = l.guardian.StdinPipe(); err != nil {
		return nil, fmt.Errorf("make the guardian's pipe: %w", err)
	}
	if err = l.guardian.Start(); err != nil {
		return nil, fmt.Errorf("start the guardian: %w", err)
	}
	return l, nil
}

// Run is the name of everything this run makes: its namespaces are called Run-HOST.
func (l *Lab) Run() string { return l.run }

// Dir is the run's own folder, on disk, gone after Close.
func (l *Lab) Dir() string { return l.dir }

// Err is the first error of the building methods since the last call of New; nil when all went
// well.
func (l *Lab) Err() error { return l.err }

func (l *Lab) fail(err error) {
	if l.err == nil && err != nil {
		l.err = err
	}
}

// Close ends the loads and removes everything the run made. It may be called more than once and
// from any goroutine. The error names what could not be removed.
func (l *Lab) Close() error {
	l.closing.Do(func() {
		for _, d := range l.loads {
			d.ending.Store(true)
		}
		l.pipe.Close()
		err := l.guardian.Wait()
		l.lock.Close()
		for _, d := range l.loads {
			<-d.gone
		}
		if err != nil || l.said.Len() > 0 {
			l.closed = fmt.Errorf(
				"remove %s: %w: %s", l.run, errors.Join(err), strings.TrimSpace(l.said.String()),
			)
		}
	})
	return l.closed
}

// environ is the environment of a process of this run. act is "" for a program that isn't this one.
func (l *Lab) environ(act string, cgroups []*Cgroup) []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case envRun, envAct, envCgroup, envGoMem, "GOMAXPROCS":
		default:
			env = append(env, v)
		}
	}
	env = append(env, envRun+"="+l.run)
	if act != "" {
		env = append(env, envAct+"="+act)
	}
	var into []string
	for _, g := range cgroups {
		into = append(into, g.procs())
	}
	if len(into) > 0 {
		env = append(env, envCgroup+"="+strings.Join(into, ":"))
	}
	return env
}

// Command prepares a program to run where the lab itself stands. As a process of the run it ends
// with it.
func (l *Lab) Command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Env = l.environ("", nil)
	return c
}

// tool runs a program to its end and returns its standard output. Its error holds the command and
// what it said.
func (l *Lab) tool(name string, args ...string) string {
	if l.err != nil {
		return ""
	}
	c := exec.Command(name, args...)
	c.Env = l.environ("", nil)
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		l.fail(
			fmt.Errorf(
				"%s %s: %w: %s", name, strings.Join(args, " "), err,
				strings.TrimSpace(said.String()),
			),
		)
	}
	return out.String()
}

// ignoringEINTR calls again what a signal interrupted, as Go's own preemption does.
func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// removeLeftovers removes the runs whose owner is dead: the lock of their folder is free.
func removeLeftovers() {
	dirs, _ := filepath.Glob(filepath.Join(stateDir, namePrefix+"*"))
	for _, dir := range dirs {
		f, err := os.Open(filepath.Join(dir, "owner"))
		if err != nil { // killed between making the folder and its lock, or being made just now
			if st, err := os.Stat(dir); err == nil && time.Since(st.ModTime()) > time.Minute {
				remove(filepath.Base(dir), io.Discard)
			}
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			remove(filepath.Base(dir), io.Discard)
		}
		f.Close()
	}
}

// guard is the guardian: it sleeps until the owner closes its end of the pipe or is dead, then
// removes the run.
func guard() int {
	// Whatever ends the owner's terminal or group must not end the guardian.
	ignoreSignals()
	io.Copy(io.Discard, os.Stdin)
	var bad bytes.Buffer
	remove(os.Getenv(envRun), &bad)
	if bad.Len() > 0 {
		os.Stdout.Write(bad.Bytes())
		return 1
	}
	return 0
}

// remove ends the processes of a run and removes its namespaces, cgroups and folder. What resists
// is reported to bad. run is a name made by New: nothing that doesn't begin with it is touched.
func remove(run string, bad io.Writer) {
	if !strings.HasPrefix(run, namePrefix) || len(run) <= len(namePrefix) {
		fmt.Fprintf(bad, "not the name of a run: %q\n", run)
		return
	}
	thaw(filepath.Join(stateDir, run)) // what waits for a frozen file system cannot be killed
	deadline := time.Now().Add(10 * time.Second)
	for {
		left := processesOf(run)
		for _, pid := range left {
			unix.Kill(pid, unix.SIGKILL)
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			fmt.Fprintf(bad, "processes that do not end: %v\n", left)
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	spaces, _ := filepath.Glob("/run/netns/" + run + "-*")
	for _, p := range spaces {
		out, err := exec.Command("ip", "netns", "del", filepath.Base(p)).CombinedOutput()
		if err != nil {
			fmt.Fprintf(
				bad, "ip netns del %s: %v: %s\n", filepath.Base(p), err, bytes.TrimSpace(out),
			)
		}
	}
	for _, root := range cgroupRoots() {
		groups, _ := filepath.Glob(filepath.Join(root, run+"-*", "*", "cgroup.procs"))
		for i, file := range groups { // groups below others go first
			groups[i] = filepath.Dir(file)
		}
		own, _ := filepath.Glob(filepath.Join(root, run+"-*"))
		groups = append(groups, own...)
		for _, g := range groups {
			err := unix.Rmdir(g)
			// Killed tasks leave their cgroup a little later.
			for n := 0; n < 200 && errors.Is(err, unix.EBUSY); n++ {
				time.Sleep(5 * time.Millisecond)
				err = unix.Rmdir(g)
			}
			if err != nil {
				fmt.Fprintf(bad, "rmdir %s: %v\n", g, err)
			}
		}
	}
	removeMarked(filepath.Join(stateDir, run))
	unmount(filepath.Join(stateDir, run))
	if err := unswap(filepath.Join(stateDir, run)); err != nil {
		fmt.Fprintln(bad, err)
	}
	if err := os.RemoveAll(filepath.Join(stateDir, run)); err != nil {
		fmt.Fprintln(bad, err)
	}
}

// processesOf lists the living processes of a run, of all runs for "", without the caller and
// without zombies.
func processesOf(run string) []int {
	var pids []int
	mine, guards := []byte("\x00"+envRun+"="), []byte("\x00"+envAct+"=guardian\x00")
	if run != "" {
		mine = append(mine, run+"\x00"...)
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil || pid <= 1 || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(d + "/environ") // empty for kernel threads and zombies
		if err != nil {
			continue
		}
		env = append([]byte{0}, env...)
		if bytes.Contains(env, mine) && !bytes.Contains(env, guards) { // a guardian goes by itself
			pids = append(pids, pid)
		}
	}
	return pids
}

// processesBeside lists the living processes of other runs.
func processesBeside(run string) []int {
	own := processesOf(run)
	return slices.DeleteFunc(processesOf(""), func(pid int) bool {
		return slices.Contains(own, pid)
	})
}

// inside runs f on a thread of its own that stands in the network namespace ns; the thread is
// thrown away after.
func inside(ns string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the runtime ends the thread with the goroutine
		n, err := os.Open("/run/netns/" + ns)
		if err != nil {
			done <- err
			return
		}
		defer n.Close()
		if err := unix.Setns(int(n.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter namespace %s: %w", ns, err)
			return
		}
		done <- f()
	}()
	return <-done
}
