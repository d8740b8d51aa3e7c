package command

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/gen"
	"culprit/trace"
	"culprit/trace/probe"
	"culprit/trace/tool"
	"culprit/trace/tracetest"
)

// A toolCase is one run of a ready-made tool beside a load of known size.
type toolCase struct {
	tool     string
	given    map[string]string // options
	operands []string
	needs    string                          // a trace event, subsystem:name; "tool PROGRAM"; ""
	prepare  func(t *testing.T, c *toolCase) // before the tool starts; nil: nothing
	// do makes the load. The tool runs meanwhile.
	do func(t *testing.T, c *toolCase)
	// command is an argument of toolWork: the tool traces only this process.
	command string
	want    string // what each counted line matches; %d is this process
	lines   int    // how many such lines there are; -N: at least N
	// sum is what the number in the first group of the lines adds up to; 0: lines counts.
	sum     int
	example bool // the first case of the tool, whose output is the example in the documentation
}

// request returns the request of a tool.
func (c *toolCase) request(t *testing.T) Request {
	t.Helper()
	all := tool.Named(c.tool)
	if all == nil {
		t.Fatalf("there is no tool %s", c.tool)
	}
	given := map[string]string{}
	for _, o := range all.Options { // rows of a busy machine must not hide those of the load
		if o.Name == "top" || o.Name == "maxrows" {
			given[o.Name] = "100000"
		}
	}
	for name, value := range c.given {
		given[name] = strings.ReplaceAll(value, "%d", strconv.Itoa(os.Getpid()))
	}
	r := Request{Parts: []Part{{'n', all.Text}}, Tool: c.tool, Options: []string{"cpp"}}
	if c.command != "" {
		given["pid"] = "$target"
		r.Commands = []string{toolProgram + " " + c.command}
	}
	macros, err := all.Macros(given, c.operands)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range macros {
		r.Options = append(r.Options, "define="+m)
	}
	return r
}

// need skips a case that this machine cannot run.
func (c *toolCase) need(t *testing.T, env *probe.Env) {
	t.Helper()
	text := tool.Named(c.tool).Text
	if strings.Contains(text, "\nfbt::") {
		needsFunctions(t)
	}
	if strings.Contains(text, "uprobe:") {
		tracetest.Needs(t, feature.Uprobe)
	}
	if c.command != "" && toolProgram == "" {
		t.Skip("needs: tool gcc")
	}
	for need := range strings.SplitSeq(c.needs, " and ") {
		needOne(t, env, need)
	}
}

// needOne skips a test unless the machine has a trace event, subsystem:name, a program, "tool
// PROGRAM", or temporary files on ext4.
func needOne(t *testing.T, env *probe.Env, need string) {
	t.Helper()
	if program, ok := strings.CutPrefix(need, "tool "); ok {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs: tool " + program)
		}
	} else if need == "ext4" {
		onExt4(t)
	} else if need != "" {
		subsystem, event, _ := strings.Cut(need, ":")
		if found, err := env.Probes(tracetest.Probe(t, "sdt:"+subsystem+"::"+event)); err != nil ||
			len(found) == 0 {
			t.Skip("needs: kernel feature " + need)
		}
	}
}

// temporary is the path of a directory that a test makes.
var temporary = regexp.MustCompile(`/tmp/TestTools\w*/\d+/`)

// run runs the case and checks its lines.
func (c *toolCase) run(t *testing.T) {
	r := c.request(t)
	want := strings.ReplaceAll(c.want, "%d", strconv.Itoa(os.Getpid()))
	line := regexp.MustCompile("(?m)" + want)
	var errs, out string
	if c.command != "" {
		_, out, errs = traced(t, r, nil)
	} else {
		_, out, errs = traced(t, r, func() {
			if c.do != nil {
				c.do(t, c)
			}
			time.Sleep(50 * time.Millisecond) // what happens in other contexts comes a little later
		})
	}
	found := line.FindAllStringSubmatch(out, -1)
	n := len(found)
	if c.sum != 0 {
		n = 0
		for _, m := range found {
			one, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			n += one
		}
	}
	if *update && c.example {
		out = strings.ReplaceAll(out, "command.test", "shop        ")
		c.keep(t, temporary.ReplaceAllString(out, "/srv/shop/"))
	}
	expected := c.lines
	if c.sum != 0 {
		expected = c.sum
	}
	if expected < 0 && n < -expected || expected >= 0 && n != expected {
		t.Errorf("%s %v: %d of %s, want %d:\n%.3000s\n%.1000s", c.tool, c.given, n, want, expected,
			out, errs)
	}
}

// keep writes the command line and the begin of the output to the examples of trace/tool.
func (c *toolCase) keep(t *testing.T, out string) {
	t.Helper()
	line := "culprit trace " + c.tool
	for _, o := range tool.Named(c.tool).Options {
		switch value, ok := c.given[o.Name]; {
		case !ok:
		case o.Kind == tool.Flag:
			line += " -" + o.Short
		default:
			line += " -" + o.Short + " " + strings.ReplaceAll(value, "%d", strconv.Itoa(os.Getpid()))
		}
	}
	for _, o := range c.operands {
		line += " " + o
	}
	if c.command != "" {
		line += " -c './work " + c.command + "'"
	}
	text := line + "\n"
	for i, row := range strings.Split(strings.Trim(out, "\n"), "\n") {
		if i < 14 {
			text += strings.TrimRight(string([]rune(row)[:min(94, len([]rune(row)))]), " ") + "\n"
		}
	}
	name := filepath.Join("../tool/testdata/examples", c.tool+".txt")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// toolProgram is the path of the program that toolWork is compiled to; "": there is no compiler.
var toolProgram string

// Each ready-made tool sees what a load of known size does.
func TestTools(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	env := tracetest.Here(t)
	if _, err := exec.LookPath("gcc"); err == nil {
		toolProgram = tracetest.CompileC(t, toolWork, "-pthread")
	}
	all := slices.Concat(processCases, fileCases, diskCases, netCases, cpuCases, userCases)
	tested := map[string]bool{}
	for i := range all {
		all[i].example = !tested[all[i].tool]
		tested[all[i].tool] = true
	}
	for _, name := range tool.Names() {
		if !tested[name] {
			t.Errorf("%s has no case", name)
		}
	}
	t.Run("all", func(t *testing.T) {
		for i := range all {
			c := &all[i]
			t.Run(c.tool, func(t *testing.T) {
				c.need(t, env)
				t.Parallel()
				if c.prepare != nil {
					c.prepare(t, c)
				}
				c.run(t)
			})
		}
	})
}

// Each tool compiles with the kernel's types, also those that need functions of the kernel, with
// each option alone.
func TestToolsCompile(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	env := tracetest.Here(t)
	env.AssumeFunctions()
	for _, one := range tool.All() {
		t.Run(one.Name, func(t *testing.T) {
			for i := range len(one.Options) + 1 {
				given := map[string]string{}
				if i > 0 {
					given[one.Options[i-1].Name] = exampleValues[one.Options[i-1].Kind]
				}
				compileTool(t, env, one, given)
			}
		})
	}
}

// exampleValues are values of options.
var exampleValues = map[tool.Kind]string{
	tool.Flag: "true", tool.Number: "7", tool.Text: `a"b\c`, tool.Interval: "0.5",
	tool.Probe: "syscall::read:entry", tool.Code: "arg0", tool.Word: "libc",
}

// compileTool compiles a tool with values of options.
func compileTool(t *testing.T, env *probe.Env, one *tool.Tool, given map[string]string) {
	t.Helper()
	var operands []string
	for _, o := range one.Operands {
		operands = append(operands, exampleValues[o.Kind])
	}
	switch one.Name {
	case "javagc", "pythoncalls", "phpcalls", "dbslower": // need a process or a file that tests may lack
		return
	case "bashreadline":
		if _, err := os.Stat("/bin/bash"); err != nil {
			return
		}
		given = nil
	}
	c := &toolCase{tool: one.Name, given: given, operands: operands}
	r := c.request(t)
	s, err := r.text(nil)
	if err != nil {
		t.Fatalf("%v: %v", given, err)
	}
	_, err = trace.Compile(trace.Script{Text: s.text, File: s.file, Mode: s.mode,
		Origins: s.origins}, env, gen.Limits{})
	if err == nil || lacksHere(err) {
		return
	}
	t.Errorf("%s %v: %v", one.Name, given, err)
}

// lacksHere reports whether a tool does not compile because of what this machine lacks: functions
// of modules, libraries, older tracepoints, variables of the kernel.
func lacksHere(err error) bool {
	for _, text := range []string{
		"no probe matches", "no library has the name", "has no function", "lists only functions",
		"this kernel has no tracepoint", "a program of several probes",
		"kfree_skb has no args[2]",
	} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// onExt4 skips a test whose temporary files are not on ext4.
func onExt4(t *testing.T) {
	t.Helper()
	b, err := exec.Command("stat", "-f", "-c", "%T", os.TempDir()).Output()
	if err != nil || !strings.HasPrefix(string(b), "ext2/ext3") {
		t.Skip("needs: kernel feature ext4")
	}
}

// onFile calls a function with a new file of a name.
func onFile(t *testing.T, name string, do func(*os.File)) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	do(f)
}

// times returns a load that calls a function n times.
func times(n int, call func()) func(*testing.T, *toolCase) {
	return func(*testing.T, *toolCase) {
		for range n {
			call()
		}
	}
}

// started runs a program some times.
func started(n int, name string, args ...string) func(*testing.T, *toolCase) {
	return func(t *testing.T, _ *toolCase) {
		for range n {
			if err := exec.CommandContext(context.Background(), name, args...).Run(); err != nil {
				if _, ended := err.(*exec.ExitError); !ended {
					t.Error(err)
				}
			}
		}
	}
}

// forked returns how many processes the kernel has started.
func forked(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	var n int
	_, rest, _ := strings.Cut(string(b), "\nprocesses ")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// The sum of pidpersec is at most what the kernel counts in the meantime.
func TestToolCountsProcesses(t *testing.T) {
	if err := feature.RawTracepoints.Have(kernel.Root{}); err != nil {
		t.Skip("needs: root")
	}
	c := &toolCase{tool: "pidpersec", operands: []string{"0.1"}}
	before := forked(t)
	_, out, _ := traced(t, c.request(t), func() {
		started(25, "/bin/true")(t, c)
		time.Sleep(250 * time.Millisecond)
	})
	after := forked(t)
	n := 0
	for _, m := range regexp.MustCompile(`(?m)^ +(\d+) +\d+$`).FindAllStringSubmatch(out, -1) {
		one, _ := strconv.Atoi(m[1])
		n += one
	}
	if n < 25 || n > after-before {
		t.Errorf("%d processes, want 25 to %d:\n%s", n, after-before, out)
	}
}
