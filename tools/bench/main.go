// Command bench measures the costs of the built culprit and of the classic tools at the same work,
// and prints the tables of docs/PERFORMANCE.md. It imports no package of culprit: it starts
// programs and reads their resource usage from the kernel.
//
// Each world, a number of processes and TCP connections, is a child in its own namespaces
// (processes, mounts, network). So the numbers are exact, and everything ends with the child,
// however this program ends. It needs root.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A world is the machine that the tools measure.
type world struct {
	Name        string
	Processes   int // sleeping, beside the tools themselves
	Connections int // established TCP sockets on loopback: two for each pair of ends
	Still       int // of so many pairs of connections one moves
	Devices     int // idle network devices beside loopback, an even number
	Namespaces  int // named network namespaces beside the world's own, each with its loopback up
	Programs    int // programs that begin each second and end soon, as beside a build
	Tools       []tool
	Starts      bool // take the first lines too
	Serve       bool // the server, and no tools
	Resident    int  // goal of the server's resident memory, MB; 0: none
}

// settings are passed to the children of this program.
type settings struct {
	World      world
	Dir        string // for what the world writes
	Culprit    string // the built program
	Everything string // the test binary of cmd/culprit
	Windows    int
	Window     time.Duration
	Beside     []string // other builds of the server that run in the same world, to compare
	// Of the server: how long it runs, looked at every five minutes; 0: three minutes.
	Soak time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.Culprit, "culprit", "bin/culprit", "the built program")
	flag.StringVar(
		&s.Everything, "everything", "",
		"the test binary of cmd/culprit, which holds BenchmarkEverything",
	)
	flag.IntVar(
		&s.Windows, "windows", 3, "how many stretches are measured; the table has their median",
	)
	flag.DurationVar(&s.Window, "window", 3*time.Second, "length of a stretch")
	flag.DurationVar(
		&s.Soak, "soak", 0,
		"let the server run so long in its worlds, and see whether its memory stays flat",
	)
	flag.Func(
		"beside",
		"another build, whose server runs beside the first one's in the same world; "+
			"may be repeated",
		func(path string) error {
			s.Beside = append(s.Beside, path)
			return nil
		},
	)
	only := flag.String(
		"world", "", "only the world of this name, or the worlds whose names have this text",
	)
	asked := flag.String(
		"question", "", "of the world tracing, only the questions whose names have this text",
	)
	flag.Parse()

	var err error
	switch flag.Arg(0) {
	case "":
		err = measureAll(s, *only, *asked)
	case "live": // a world's first process
		err = live()
	case "least":
		err = least()
	case "hold": // holds connections
		err = hold(flag.Arg(1), flag.Arg(2))
	case "remove":
		err = removeLater(flag.Arg(1))
	case "sleep": // has children that sleep
		err = sleepers(flag.Arg(1))
	case "programs": // starts programs
		err = startPrograms(flag.Arg(1))
	case "work": // what a traced program does
		err = work(flag.Arg(1))
	default:
		err = fmt.Errorf("unexpected %q", flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measureAll(s settings, only, question string) error {
	if only == "flame" {
		return compareFlames(s.Culprit, os.Stdout)
	}
	if only == "profile" {
		return compareProfile(s.Culprit, os.Stdout)
	}
	if os.Geteuid() != 0 {
		fmt.Println("skipped the comparison with the classic tools: namespaces need root")
		return nil
	}
	if _, err := os.ReadFile("/proc/self/schedstat"); err != nil {
		return fmt.Errorf("this kernel does not say how long a task ran: %w", err)
	}
	started := time.Now()
	var all []result
	exact := slices.ContainsFunc(worlds(), func(w world) bool { return w.Name == only })
	for _, w := range worlds() {
		if !strings.Contains(w.Name, only) || exact && w.Name != only || s.Soak > 0 && !w.Serve {
			continue
		}
		s.World = w
		fmt.Fprintf(os.Stderr, "%4.0f s: %s\n", time.Since(started).Seconds(), w.Name)
		r, err := enter(s)
		if err != nil {
			report(os.Stdout, all)
			return fmt.Errorf("world %s: %w", w.Name, err)
		}
		all = append(all, r)
	}
	report(os.Stdout, all)
	if s.Soak == 0 && strings.Contains("tracing", only) {
		if err := compareTracing(s.Culprit, question, os.Stdout); err != nil {
			return err
		}
	}
	if s.Soak == 0 && only == "" {
		err := errors.Join(
			compareProfile(s.Culprit, os.Stdout), compareFlames(s.Culprit, os.Stdout),
		)
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "%4.0f s: done\n", time.Since(started).Seconds())
	return nil
}

// enter starts a world, waits for its result, and ends it. The kernel kills all processes of a
// process namespace with the first one, and the first one with this process.
func enter(s settings) (result, error) {
	runtime.LockOSThread() // the death signal is of the thread that started the child
	defer runtime.UnlockOSThread()
	dir, done, err := makeDirectory()
	if err != nil {
		return result{}, err
	}
	defer done()
	s.Dir = dir
	in, err := json.Marshal(s)
	if err != nil {
		return result{}, err
	}
	cmd := exec.Command("/proc/self/exe", "live")
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(in)), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	out, err := cmd.Output()
	var r result
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	return r, err
}

func median[T ~int64 | ~float64](v []T) T {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

var errNoTool = errors.New("not installed")
