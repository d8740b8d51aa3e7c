package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A profile is an input that culprit flame, inferno and FlameGraph make a picture of.
type profile struct {
	What  string
	Name  string
	Perf  bool // perf script, else folded
	Write func(*bufio.Writer)
}

func profiles() []profile {
	return []profile{
		{
			What:  "perf script, 100 MB",
			Name:  "perf.txt",
			Perf:  true,
			Write: func(w *bufio.Writer) { writePerf(w, 100<<20) },
		},
		{
			What:  "folded, a million distinct stacks",
			Name:  "million.folded",
			Write: func(w *bufio.Writer) { writeFolded(w, 1_000_000, 24) },
		},
		{
			What:  "folded, 20,000 stacks of 1,000 frames",
			Name:  "deep.folded",
			Write: func(w *bufio.Writer) { writeFolded(w, 20_000, 1000) },
		},
	}
}

// A walk makes stacks as programs have them: few functions at the root, more the deeper, and some
// of them seldom.
type walk struct {
	r     *rand.Rand
	names []string
}

func newWalk() *walk {
	w := &walk{r: rand.New(rand.NewPCG(1, 2))}
	parts := []string{
		"tcp",
		"skb",
		"rcv",
		"queue",
		"alloc",
		"page",
		"lock",
		"inode",
		"ext4",
		"vfs",
		"read",
		"write",
		"poll",
		"sched",
		"timer",
		"irq",
	}
	for i := range 4000 {
		one, other := parts[w.r.IntN(len(parts))], parts[w.r.IntN(len(parts))]
		name := one + "_" + other + "_" + strconv.Itoa(
			i,
		)
		if i%3 == 0 {
			name = "ns::" + name + "::run(std::vector<int> const&)"
		}
		w.names = append(w.names, name)
	}
	return w
}

// next returns the function called by the one at a depth: of a few that each caller has, the first
// most often.
func (w *walk) next(caller, depth int) int {
	choice := 0
	for choice < 6 && w.r.IntN(5) == 0 {
		choice++
	}
	return (caller*31 + depth*7 + choice*613 + 1) % len(w.names)
}

// writePerf writes at least size bytes of perf script output: 5,000 stacks that repeat, each at
// other addresses.
func writePerf(out *bufio.Writer, size int) {
	w := newWalk()
	var stacks [][]byte
	for range 5000 {
		var lines [][]byte
		f := 0
		for d := range 12 + w.r.IntN(30) {
			f = w.next(f, d)
			at, file := 0x7f0000000000+f*4096, "/usr/lib/x86_64-linux-gnu/libthing.so.1.2"
			if d > 10 {
				at, file = 0xfffffff80000000+f*4096, "[kernel.kallsyms]"
			}
			lines = append(
				lines,
				fmt.Appendf(
					nil, "\t%16x %s+0x%x (%s)\n", at+w.r.IntN(8)*16, w.names[f], w.r.IntN(8)*16,
					file,
				),
			)
		}
		var b []byte
		for i := range lines {
			b = append(b, lines[len(lines)-1-i]...)
		}
		stacks = append(stacks, append(b, '\n'))
	}
	commands := []string{"nginx", "postgres", "node", "ksoftirqd/0", "prometheus"}
	for n, i := 0, 0; n < size; i++ {
		k := w.r.IntN(w.r.IntN(len(stacks)) + 1) // some come more often
		m, _ := fmt.Fprintf(
			out, "%s %5d [%03d] %d.%06d:     250000 cpu-clock:pppH: \n", commands[k%len(commands)],
			1000+k%len(commands), i%8, 1000+i/100, i%100*10000,
		)
		out.Write(stacks[k]) //nolint:errcheck // reported by Flush
		n += m + len(stacks[k])
	}
}

// writeFolded writes a number of folded stacks of a depth, each once.
func writeFolded(out *bufio.Writer, stacks, depth int) {
	w := newWalk()
	for i := range stacks {
		out.WriteString("program") //nolint:errcheck // reported by Flush
		f := 0
		for d := range depth/2 + w.r.IntN(depth/2) {
			f = w.next(f, d)
			out.WriteByte(';')          //nolint:errcheck // the same
			out.WriteString(w.names[f]) //nolint:errcheck // the same
		}
		fmt.Fprintf(out, ";leaf_%d %d\n", i, 1+w.r.IntN(20))
	}
}

// A drawing is the cost of one picture.
type drawing struct {
	// Took is the CPU time of the program, user and system.
	Took time.Duration
	// Resident is the largest resident memory of one of the processes, in bytes, read every 2 ms.
	// The kernel's own figure is at least that of this program, which forks them.
	Resident int64
}

// draw runs programs one after another; each reads a file with the output of the one before. It
// returns the sum of their costs.
func draw(dir string, lines ...[]string) (d drawing, err error) {
	in := ""
	for i, line := range lines {
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		var wrong bytes.Buffer
		cmd.Stderr = &wrong
		if in != "" {
			f, err := os.Open(in)
			if err != nil {
				return d, err
			}
			defer f.Close()
			cmd.Stdin = f
		}
		in = filepath.Join(dir, fmt.Sprint("step", i))
		f, err := os.Create(in)
		if err != nil {
			return d, err
		}
		defer f.Close()
		cmd.Stdout = f
		if err := cmd.Start(); err != nil {
			return d, err
		}
		most, ended := make(chan int64), make(chan struct{})
		go func() { most <- mostResident(cmd.Process.Pid, ended) }()
		err = cmd.Wait()
		close(ended)
		d.Resident = max(d.Resident, <-most)
		if err != nil {
			return d, fmt.Errorf("%s: %w: %s", line[0], err, wrong.String())
		}
		d.Took += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return d, nil
}

// mostResident reads a process's memory until the process ends. It returns the largest resident
// memory in bytes.
func mostResident(pid int, ended <-chan struct{}) (most int64) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if _, rest, ok := bytes.Cut(status, []byte("VmHWM:")); err == nil && ok {
			line, _, _ := bytes.Cut(rest, []byte("kB"))
			if n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64); err == nil {
				most = max(most, n*1024)
			}
		}
		select {
		case <-ended:
			return most
		case <-tick.C:
		}
	}
}

// inferno returns the directory of inferno's programs: of PATH, or built by cargo below the user's
// cache; "" there is none.
func inferno() string {
	if path, err := exec.LookPath("inferno-collapse-perf"); err == nil {
		return filepath.Dir(path)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	root := filepath.Join(cache, "culprit", "inferno")
	if _, err := os.Stat(filepath.Join(root, "bin", "inferno-collapse-perf")); err != nil {
		cmd := exec.Command("cargo", "install", "--quiet", "inferno", "--root", root)
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "cargo install inferno: %v: %s\n", err, out)
			return ""
		}
	}
	return filepath.Join(root, "bin")
}

// flameGraph returns the directory of FlameGraph's scripts: where CULPRIT_FLAMEGRAPH says, or
// cloned below the user's cache; "" there is none.
func flameGraph() string {
	if _, err := exec.LookPath("perl"); err != nil {
		return ""
	}
	if dir := os.Getenv("CULPRIT_FLAMEGRAPH"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir := filepath.Join(cache, "culprit", "FlameGraph")
	if _, err := os.Stat(filepath.Join(dir, "flamegraph.pl")); err != nil {
		const source = "https://github.com/brendangregg/FlameGraph"
		cmd := exec.Command("git", "clone", "--quiet", "--depth", "1", source, dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "clone FlameGraph: %v: %s\n", err, out)
			return ""
		}
	}
	return dir
}

// compareFlames prints how culprit flame, inferno and FlameGraph's scripts compare: from the file
// to the SVG, one thread each, in turn.
func compareFlames(culprit string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "culprit-flame")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rust, perl := inferno(), flameGraph()
	if rust == "" {
		fmt.Fprintln(
			out, "skipped the comparison with inferno: it is not installed, and cargo could not",
		)
	}
	if perl == "" {
		fmt.Fprintln(
			out, "skipped the comparison with FlameGraph: no perl, or its scripts could not be had",
		)
	}
	fmt.Fprintf(
		out,
		"\n### Flame graphs\n\n"+
			"From the file to the SVG, one thread each: seconds of CPU, the best of three.",
	)
	bare := filepath.Join(dir, "one.folded")
	if err := os.WriteFile(bare, []byte("main 1\n"), 0o600); err != nil {
		return err
	}
	args := []string{culprit, "flame", bare, "-o", filepath.Join(dir, "ours.svg")}
	if d, err := draw(dir, args); err == nil {
		fmt.Fprintf(
			out, " A single stack takes culprit %s s and %.1f MB.", seconds(d.Took),
			float64(d.Resident)/(1<<20),
		)
	}
	fmt.Fprint(out, "\n\n")
	fmt.Fprint(
		out,
		"| input | MB | culprit s | inferno s | times | FlameGraph s | times "+
			"| culprit MB | inferno MB | FlameGraph MB |\n"+
			"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
	)
	for _, p := range profiles() {
		path := filepath.Join(dir, p.Name)
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		w := bufio.NewWriterSize(f, 1<<20)
		p.Write(w)
		if err := w.Flush(); err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		sides := [][][]string{
			{{culprit, "flame", path, "-o", filepath.Join(dir, "ours.svg")}},
			nil,
			nil,
		}
		if rust != "" {
			sides[1] = [][]string{{filepath.Join(rust, "inferno-flamegraph"), path}}
			if p.Perf {
				sides[1] = [][]string{
					{filepath.Join(rust, "inferno-collapse-perf"), "--nthreads", "1", path},
					{filepath.Join(rust, "inferno-flamegraph")},
				}
			}
		}
		if perl != "" {
			sides[2] = [][]string{{"perl", filepath.Join(perl, "flamegraph.pl"), path}}
			if p.Perf {
				sides[2] = [][]string{
					{"perl", filepath.Join(perl, "stackcollapse-perf.pl"), path},
					{"perl", filepath.Join(perl, "flamegraph.pl")},
				}
			}
		}
		best := make([]drawing, len(sides))
		for round := range 3 {
			for i, lines := range sides {
				if lines == nil || i == 2 && round > 0 { // minutes
					continue
				}
				d, err := draw(dir, lines...)
				if err != nil {
					return fmt.Errorf("%s: %w", p.What, err)
				}
				if round == 0 || d.Took < best[i].Took {
					best[i].Took = d.Took
				}
				best[i].Resident = max(best[i].Resident, d.Resident)
			}
		}
		cells := []string{p.What, strconv.FormatInt(info.Size()>>20, 10), seconds(best[0].Took)}
		for _, b := range best[1:] {
			if b.Took == 0 {
				cells = append(cells, "-", "-")
				continue
			}
			cells = append(
				cells, seconds(b.Took),
				strconv.FormatFloat(b.Took.Seconds()/best[0].Took.Seconds(), 'f', 1, 64),
			)
		}
		for _, b := range best {
			if b.Resident == 0 {
				cells = append(cells, "-")
				continue
			}
			cells = append(cells, strconv.FormatFloat(float64(b.Resident)/(1<<20), 'f', 1, 64))
		}
		fmt.Fprintln(out, "| "+strings.Join(cells, " | ")+" |")
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) }
