package sampler

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace/tracetest"
)

// rubyProgram spends 70 % of its time in seventy and 30 % in thirty. Between recurse and its block
// are functions of C; thirty runs in a fiber.
const rubyProgram = `def leaf(n)
  x = 1
  i = 0
  while i < n
    x = x * 3 % 1000003
    i += 1
  end
  x
end
def seventy; leaf(7000); end
def thirty; leaf(3000); end
class Work
  def recurse(n)
    return [1].sort_by { |x| seventy; x } if n == 0
    recurse(n - 1)
  end
  def self.main
    while true
      new.recurse(3)
      Fiber.new { thirty }.resume
    end
  end
end
Work.main
`

// rubyReports prints each stack with which it sleeps, once: of a thread, and of fibers. The frames
// are line, file and label, separated by tabs.
const rubyReports = `$stdout.sync = true
module Report
  SEEN = {}
  def self.now
    frames = caller_locations(1).map { |l| [l.lineno, l.path, l.label].join(";") }.join("\t")
    puts frames unless SEEN[frames]
    SEEN[frames] = true
    sleep 0.01
  end
end
module Mixed
  def mixed
    yield
  end
end
class Outer
  class Inner
    include Mixed
    def self.start(n)
      new.run(n)
    end
    def run(n)
      return run(n - 1) if n > 0
      mixed do
        [1].each do |x|
          begin
            raise "x"
          rescue
            nest
          end
        end
      end
    end
    define_method(:nest) do
      [3, 1].sort_by do |x|
        pause
        x
      end
    end
    def pause
      Report.now
    end
  end
  def Outer.evaluate
    eval("lambda { Report.now }", binding, "evaluated.rb", 7)
  end
  EVALUATED = evaluate
  def Outer.long(x)
    x = x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x
    x = x - x + x - x + x - x + x - x + x - x + x - x + x - x + x - x + x - x + x - x + x - x + x - x
    x = x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x
    EVALUATED.call
    x = x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x
    Report.now
  end
end
Thread.new do
  while true
    Outer::Inner.start(2)
  end
end
while true
  Fiber.new { Outer.long(1) }.resume
  [2].each { |x| Report.now }
end
`

// rubiesHere returns the interpreters of this machine by version: 3.1 and others.
func rubiesHere(t *testing.T) map[string]string {
	t.Helper()
	tracetest.Needs(t, feature.RawTracepoints)
	if runtime.GOARCH != "amd64" || tracetest.TablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	home, _ := os.UserHomeDir() // without it there are fewer
	found, _ := filepath.Glob("/opt/rubies/*/bin/ruby")
	more, _ := filepath.Glob(filepath.Join(home, ".rbenv/versions/*/bin/ruby"))
	found = append(found, more...)
	if p, err := exec.LookPath("ruby"); err == nil {
		found = append(found, p)
	}
	out := map[string]string{}
	for _, p := range found {
		version, err := exec.Command(p, "-e", "print RUBY_ENGINE, RUBY_VERSION[/^\\d+\\.\\d+/]").Output()
		if v, mri := strings.CutPrefix(string(version), "ruby"); err == nil && mri &&
			slices.Contains([]string{"2.7", "3.0", "3.1", "3.2", "3.3", "3.4"}, v) {
			out[v] = p
		}
	}
	if len(out) == 0 {
		t.Skip("needs: tool ruby")
	}
	return out
}

// rubyScript writes a program and returns its path.
func rubyScript(t *testing.T, text string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "program.rb")
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return script
}

// rubyFrames returns the functions of Ruby in a stack, innermost first.
func rubyFrames(stack []string) (out []string) {
	for _, f := range stack {
		if name, _, is := strings.Cut(f, " ("); is {
			out = append(out, name)
		}
	}
	return out
}

// Stacks of Ruby have its functions in place of the evaluator, in the order of calls, with
// functions of C between them, and in the right shares.
func TestProfileOfRubyFrames(t *testing.T) {
	rubies := rubiesHere(t)
	script := rubyScript(t, rubyProgram)
	p := Profile{Hz: 499, User: true, For: measure.Span(5 * time.Second)}
	versions := map[int]string{}
	for v, ruby := range rubies {
		pid := tracetest.Start(t, ruby, script)
		versions[pid] = v
		p.Threads.PIDs = append(p.Threads.PIDs, pid)
	}
	got, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type counts struct {
		seventy, thirty, whole, other int64
		odd                           []string
	}
	of := map[string]*counts{}
	for v := range rubies {
		of[v] = &counts{}
	}
	file := func(name string, line int) string { return fmt.Sprintf("%s (%s:%d)", name, script, line) }
	for s := range got.Stacks {
		c := of[versions[s.PID]]
		names := strings.Join(rubyFrames(s.User), " < ")
		_, names, leaf := strings.Cut(names, "Object#leaf < ")
		between := strings.Join(s.User, "\n")
		_, between, _ = strings.Cut(between, file("block in Work#recurse", 14))
		between, _, _ = strings.Cut(between, file("Work#recurse", 13))
		switch {
		case !leaf:
			c.other += s.Count
			continue
		case strings.HasPrefix(names, "Object#seventy"):
			c.seventy += s.Count
			if names == "Object#seventy < block in Work#recurse < Work#recurse < "+
				"Work#recurse < Work#recurse < Work#recurse < Work.main < <main>" &&
				strings.Contains(between, "libruby") && slices.Contains(s.User, file("Object#leaf", 1)) &&
				!strings.Contains(strings.Join(s.User, "\n"), "vm_exec") {
				c.whole += s.Count
				continue
			}
		case strings.HasPrefix(names, "Object#thirty"):
			c.thirty += s.Count
			if names == "Object#thirty < block in Work.main" {
				c.whole += s.Count
				continue
			}
		}
		c.odd = s.User
	}
	for v, c := range of {
		t.Run(v, func(t *testing.T) {
			all := c.seventy + c.thirty
			t.Logf("%d and %d, of them %d whole; %d elsewhere", c.seventy, c.thirty, c.whole, c.other)
			if all < 20 || c.whole < all*95/100 || c.other > all/4+5 {
				t.Errorf("of %d samples %d are whole, %d elsewhere; others as %q", all, c.whole,
					c.other, c.odd)
			}
			checkShares(t, float64(c.seventy), float64(c.thirty))
		})
	}
}

// placed is the text of a frame with a line.
var placed = regexp.MustCompile(`^(.*) \((.*):([0-9]+)\)$`)

// measuredRuby returns a stack as rubyReports prints it, from the caller of Report.now on; "": it
// is not one of those. Frames that the interpreter hides are left out.
func measuredRuby(stack []string, version string) string {
	var out []string
	rescue := false // the code that rescues was before
	for _, f := range stack {
		m := placed.FindStringSubmatch(f)
		if m == nil || strings.HasPrefix(m[2], "<internal:") {
			continue
		}
		name, around := m[1], rescue
		if version >= "3.4" { // it reports the two as one
			if name, rescue = strings.CutPrefix(name, "rescue in "); around {
				continue
			}
		}
		if version < "3.4" { // labels without classes
			last := name[strings.LastIndexByte(name, ' ')+1:]
			name = name[:len(name)-len(last)] + last[strings.LastIndexAny(last, "#.")+1:]
		}
		out = append(out, m[3]+";"+m[2]+";"+name)
	}
	if len(out) < 2 || !strings.HasPrefix(out[0], "8;") {
		return ""
	}
	return strings.Join(out[1:], "\t")
}

// reportedRuby returns a stack that rubyReports has printed without functions of C, which have the
// line of their caller, and without those that the interpreter hides.
func reportedRuby(text string) string {
	hidden := []string{"each", "sort_by", "call", "Array#each", "Enumerable#sort_by", "Proc#call"}
	frames := strings.Split(text, "\t")
	return strings.Join(slices.DeleteFunc(frames, func(f string) bool {
		label := f[strings.LastIndexByte(f, ';')+1:]
		return slices.Contains(hidden, label) || strings.Contains(f, ";<internal:")
	}), "\t")
}

// The stacks with which threads and fibers sleep have the names, files and lines that the program
// itself reports.
func TestOffCPUOfRuby(t *testing.T) {
	for v, ruby := range rubiesHere(t) {
		t.Run(v, func(t *testing.T) {
			c := exec.Command(ruby, rubyScript(t, rubyReports))
			_, out := tracetest.Pipe(t, c)
			t.Cleanup(func() { c.Process.Kill() }) //nolint:errcheck // it may have ended
			const places = 4
			want := map[string]bool{}
			for lines := bufio.NewScanner(out); len(want) < places && lines.Scan(); {
				want[reportedRuby(lines.Text())] = true
			}
			p := Profile{Of: OffCPU, User: true, For: measure.Span(2 * time.Second),
				Threads: ThreadFilter{PIDs: []int{c.Process.Pid}}}
			got, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			seen, classes, unknown := map[string]bool{}, map[string]bool{}, map[string]bool{}
			var all, right int64
			for s := range got.Stacks {
				text := measuredRuby(s.User, v)
				if text == "" {
					continue
				}
				all++
				seen[text] = true
				if want[text] {
					right++
				} else {
					unknown[text] = true
				}
				for _, f := range rubyFrames(s.User) {
					classes[f] = true
				}
			}
			for text := range want {
				if !seen[text] {
					t.Errorf("not measured: %s", text)
				}
			}
			if all == 0 || right < all*9/10 {
				t.Errorf("of %d stacks %d are reported, not %q", all, right,
					slices.Collect(maps.Keys(unknown)))
			}
			for _, f := range []string{"Report.now", "Outer::Inner#pause", "Outer::Inner.start",
				"Outer.long", "Mixed#mixed", "block in <main>"} {
				if !classes[f] && v != "3.2" { // has no table of names of classes
					t.Errorf("no frame %s in %v", f, classes)
				}
			}
		})
	}
}

// Functions of a process that ends during the profile have names.
func TestProfileOfEndingRuby(t *testing.T) {
	for v, ruby := range rubiesHere(t) {
		t.Run(v, func(t *testing.T) {
			script := rubyScript(t, `def work(till)
  while Process.clock_gettime(Process::CLOCK_MONOTONIC) < till
    i = 0
    i += 1 while i < 100_000
  end
end
work(Process.clock_gettime(Process::CLOCK_MONOTONIC) + 6)
`)
			pid := tracetest.Start(t, ruby, script)
			p := Profile{Hz: 499, User: true, For: measure.Span(8 * time.Second),
				Threads: ThreadFilter{PIDs: []int{pid}}}
			got, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var named, unnamed int64
			for s := range got.Stacks {
				for _, f := range s.User {
					if f == fmt.Sprintf("Object#work (%s:1)", script) {
						named += s.Count
					} else if strings.HasPrefix(f, "[Ruby: name") {
						unnamed += s.Count
					}
				}
			}
			t.Logf("%d samples have names, %d have none", named, unnamed)
			if named < 20 || unnamed > named/2 {
				t.Errorf("%d samples have names, %d have none", named, unnamed)
			}
		})
		break // the fastest way is the same in all
	}
}
