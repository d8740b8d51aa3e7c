// Command faults makes faults that concern a whole machine: its clock, its disks and its memory. It
// is for an emulated machine (vm/run), and refuses to run on another one. For each fault and each
// healthy twin it prints a line "story NAME" and what culprit diagnose --json says meanwhile.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// story is a fault or its twin.
type story struct {
	name string
	// play makes it and starts its load. undo ends both.
	play func() (undo func(), err error)
}

func stories() []story {
	return []story{
		{"clock-slow", clockSource("hpet", "acpi_pm")},
		{"clock-fast", clockSource("tsc")},
		{"clock-steps", stepping},
		{"clock-adjusted", adjusting},
		{"array-degraded", array(1)},
		{"array-whole", array(2)},
		{"disk-suspended", mapped(true)},
		{"disk-mapped", mapped(false)},
		{"numa-remote", allocatingOn(1)},
		{"numa-local", allocatingOn(0)},
	}
}

func main() {
	culprit := flag.String("culprit", "./culprit", "the program")
	only := flag.String("only", "", "comma list of stories; all by default")
	long := flag.String("for", "10s", "how long it watches")
	flag.Parse()
	if len(flag.Args()) > 0 { // a load, started by this program
		load(flag.Args())
		return
	}
	if b, _ := os.ReadFile("/proc/cpuinfo"); !strings.Contains(string(b), "QEMU TCG CPU") {
		fmt.Fprintln(os.Stderr, "faults changes the clock and the disks of a machine: it runs in "+
			"vm/run only")
		os.Exit(2)
	}
	failed := false
	for _, s := range stories() {
		if *only != "" && !strings.Contains(","+*only+",", ","+s.name+",") {
			continue
		}
		if err := play(s, *culprit, *long); err != nil {
			fmt.Printf("\nfailed %s: %v\n", s.name, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

func play(s story, culprit, long string) error {
	undo, err := s.play()
	if undo != nil {
		defer undo()
	}
	if err != nil {
		return err
	}
	c := exec.Command(culprit, "diagnose", "--for", long, "--json")
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return fmt.Errorf("diagnose: %w", err)
	}
	fmt.Printf("\nstory %s\n%s\n", s.name, strings.TrimSpace(string(out)))
	return nil
}

// child starts this program as a load. The result ends it.
func child(args ...string) (stop func(), err error) {
	c := exec.Command("/proc/self/exe", args...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	word := make([]byte, len("ready"))
	if _, err := out.Read(word); err != nil {
		c.Process.Kill()
		c.Wait()
		return nil, fmt.Errorf("load %s: %w", args[0], err)
	}
	return func() { c.Process.Kill(); c.Wait() }, nil
}

// load is a load of a story.
func load(args []string) {
	run := map[string]func([]string) error{
		"write": writing, "time": asking, "allocate": allocating,
	}[args[0]]
	if run == nil {
		fmt.Fprintf(os.Stderr, "no load is called %q\n", args[0])
		os.Exit(2)
	}
	if err := run(args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", args[0], err)
		os.Exit(1)
	}
}
