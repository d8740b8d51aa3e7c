// Command tutorials makes the outputs in docs/tutorials anew: it plays the fault that a page names,
// runs each command of the page, and replaces the output that the page shows.
//
//	tutorials -culprit bin/culprit -lab LAB docs/tutorials/*.md
//
// A page names its fault in a line "<!-- fault: NAME -->". In a fenced block, the text after a line
// "$ COMMAND" is replaced by the output of that command. Names of the lab's namespaces,
// culab12-box, become those of the fault that is played. It needs root and an idle machine.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	culprit := flag.String("culprit", "bin/culprit", "the program whose output is shown")
	lab := flag.String("lab", "", "the program of cases/lab")
	flag.Parse()
	if *lab == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: tutorials -culprit FILE -lab FILE PAGE...")
		os.Exit(2)
	}
	path, err := filepath.Abs(*culprit)
	if err == nil {
		err = os.Setenv("PATH", filepath.Dir(path)+":"+os.Getenv("PATH"))
	}
	for _, page := range flag.Args() {
		if err == nil {
			err = record(*lab, page)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tutorials:", err)
		os.Exit(1)
	}
}

var (
	faultLine = regexp.MustCompile(`<!-- fault: ([a-z0-9-]+) -->`)
	labName   = regexp.MustCompile(`culab[0-9]+`)
)

// record plays the fault of a page and writes the page with the outputs of its commands. A page
// without a fault is left as it is.
func record(lab, page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	fault := faultLine.FindSubmatch(text)
	if fault == nil {
		return nil
	}
	fmt.Println(page)
	name, stop, err := play(lab, string(fault[1]))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	defer stop()
	replaced := rewrite(string(text), name, output)
	return os.WriteFile(page, []byte(replaced), 0o644)
}

// play starts a fault and waits until the lab has printed its truth. It returns the prefix of the
// lab's namespaces, "" where the fault has none. The caller calls stop.
func play(lab, fault string) (name string, stop func(), err error) {
	cmd := exec.Command(lab, fault)
	cmd.Stderr = os.Stderr
	printed, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		cmd.Process.Signal(syscall.SIGINT) //nolint:errcheck // its end is waited for
		cmd.Wait()                         //nolint:errcheck // an interrupted fault has no result
	}
	lines := bufio.NewScanner(printed)
	for lines.Scan() {
		if found := labName.FindString(lines.Text()); found != "" {
			name = found
		}
		if strings.HasPrefix(lines.Text(), "the truth:") {
			go io.Copy(io.Discard, printed) //nolint:errcheck // what follows is of no use here
			time.Sleep(3 * time.Second)     // the rates of the fault settle
			return name, stop, nil
		}
	}
	stop()
	return "", nil, fmt.Errorf("the fault %s ended before it began", fault)
}

// rewrite returns text with the output of each command replaced, and with the names of the lab's
// namespaces replaced by name.
func rewrite(text, name string, run func(command string) string) string {
	if name != "" {
		text = labName.ReplaceAllString(text, name)
	}
	var b strings.Builder
	fenced, skip := false, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced, skip = !fenced, false
		}
		command, isCommand := strings.CutPrefix(line, "$ ")
		if fenced && isCommand {
			b.WriteString(line)
			b.WriteString(run(strings.TrimSpace(command)))
			skip = true
			continue
		}
		if !skip {
			b.WriteString(line)
		}
	}
	return b.String()
}

// output returns what a command prints on both streams, with trailing blanks of lines removed.
func output(command string) string {
	out, err := exec.Command("sh", "-c", command).CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", command, err)
	}
	var b bytes.Buffer
	for line := range bytes.Lines(out) {
		b.Write(bytes.TrimRight(line, " \t\n"))
		b.WriteByte('\n')
	}
	return b.String()
}
