package sampler

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace/tracetest"
)

// phpProgram spends 70 % of its time in seventy and 30 % in thirty. Between recurse and its closure
// is a function of C.
const phpProgram = `<?php
function leaf($n) {
    $x = 1;
    for ($i = 0; $i < $n; $i++) {
        $x = $x * 3 % 1000003;
    }
    return $x;
}
function seventy() { leaf(7000); }
function thirty() { leaf(3000); }
class Work {
    function recurse($n) {
        if ($n > 0) return $this->recurse($n - 1);
        array_map(function ($x) {
            seventy();
        }, [1]);
    }
    static function main() {
        while (true) {
            (new Work)->recurse(3);
            thirty();
        }
    }
}
Work::main();
`

// phpReports prints each stack with which it sleeps, once: line, file and function of each frame;
// then "end". Functions of C are no frames.
const phpReports = `<?php
class Report {
    static $seen = [];
    static function now() {
        $frames = [];
        $all = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS);
        foreach ($all as $i => $at) {
            if (!isset($at['file'])) continue;
            $by = $all[$i + 1] ?? ['function' => '{main}'];
            $name = isset($by['class']) ? $by['class'] . '::' . $by['function'] : $by['function'];
            $file = str_ends_with($at['file'], "eval()'d code") ? "eval()'d code" : $at['file'];
            $frames[] = "$at[line];$file;$name";
        }
        $text = implode("\t", $frames);
        if (!isset(self::$seen[$text])) echo "$text\n";
        self::$seen[$text] = true;
        usleep(10000);
    }
}
trait Mixing {
    function mixed() {
        Report::now();
    }
}
class Base {
    function __get($name) {
        Report::now();
    }
    function __destruct() {
        Report::now();
    }
}
class Inner extends Base {
    use Mixing;
    static function start($n) {
        return (new Inner)->run($n);
    }
    function run($n) {
        if ($n > 0) {
            return $this->run($n - 1);
        }
        $this->mixed();
        $x = $this->missing;
        $list = [3, 1];
        usort($list, function ($a, $b) {
            Report::now();
            return $a <=> $b;
        });
        foreach ($this->generate() as $x) {
            Report::now();
        }
        try {
            $this->mixed();
            throw new Exception;
        } catch (Exception $e) {
            Report::now();
        }
    }
    function generate() {
        Report::now();
        yield 1;
    }
}
for ($i = 0;; $i++) {
    Inner::start(1);
    array_map(fn($x) => Report::now(), [1]);
    include $argv[1];
    eval('Report::now();');
    Report::now();
    if (!$i) echo "end\n";
}
`

// phpHere returns the interpreter of this machine.
func phpHere(t *testing.T) string {
	t.Helper()
	tracetest.Needs(t, feature.RawTracepoints)
	if runtime.GOARCH != "amd64" || tracetest.TablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	for _, name := range []string{"php8.2", "php"} {
		p, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		built, err := exec.Command(p, "-n", "-r",
			"echo PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION, ' ', PHP_ZTS;").Output()
		if err == nil && string(built) == "8.2 0" {
			return p
		}
	}
	t.Skip("needs: tool php8.2")
	return ""
}

// phpScript writes a program and returns its path.
func phpScript(t *testing.T, text string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "program.php")
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return script
}

// Stacks of PHP have its functions in place of the function that runs them, in the order of calls,
// with functions of C between them, and in the right shares.
func TestProfileOfPHPFrames(t *testing.T) {
	php := phpHere(t)
	script := phpScript(t, phpProgram)
	p := Profile{Hz: 499, User: true, For: measure.Span(5 * time.Second)}
	p.Threads.PIDs = []int{tracetest.Start(t, php, "-n", script)}
	got, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var seventy, thirty, whole, other int64
	var odd []string
	leaf := fmt.Sprintf("leaf (%s:2)", script)
	for s := range got.Stacks {
		names := strings.Join(perlFrames(s.User), " < ")
		_, names, in := strings.Cut(names, "leaf < ")
		all := strings.Join(s.User, "\n")
		switch {
		case !in:
			other += s.Count
			continue
		case strings.HasPrefix(names, "seventy"):
			seventy += s.Count
			if names == "seventy < Work::{closure} < Work::recurse < Work::recurse < Work::recurse"+
				" < Work::recurse < Work::main < {main}" && slices.Contains(s.User, leaf) &&
				!strings.Contains(all, "execute_ex") {
				whole += s.Count
				continue
			}
		case strings.HasPrefix(names, "thirty"):
			thirty += s.Count
			if names == "thirty < Work::main < {main}" {
				whole += s.Count
				continue
			}
		}
		odd = s.User
	}
	all := seventy + thirty
	t.Logf("%d and %d, of them %d whole; %d elsewhere", seventy, thirty, whole, other)
	if all < 20 || whole < all*95/100 || other > all/4+5 {
		t.Errorf("of %d samples %d are whole, %d elsewhere; others as %q", all, whole, other, odd)
	}
	checkShares(t, float64(seventy), float64(thirty))
}

// measuredPHP returns a stack as phpReports prints it, from the caller of Report::now on; "": it is
// not one of those.
func measuredPHP(stack []string) string {
	var out []string
	for _, f := range stack {
		if m := placed.FindStringSubmatch(f); m != nil && !strings.HasSuffix(m[2], ".c") {
			out = append(out, m[3]+";"+m[2]+";"+m[1])
		}
	}
	if len(out) < 2 || !strings.HasSuffix(out[0], ";Report::now") {
		return ""
	}
	return strings.Join(out[1:], "\t")
}

// The stacks with which a program sleeps have the names, files and lines that it itself reports.
func TestOffCPUOfPHP(t *testing.T) {
	php := phpHere(t)
	included := filepath.Join(t.TempDir(), "included.php")
	if err := os.WriteFile(included, []byte("<?php\n\nReport::now();\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(php, "-n", phpScript(t, phpReports), included)
	_, out := tracetest.Pipe(t, c)
	t.Cleanup(func() { c.Process.Kill() }) //nolint:errcheck // it may have ended
	want := map[string]bool{}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "end"; {
		want[lines.Text()] = true
	}
	const least = 10
	if len(want) < least {
		t.Fatalf("the program reports %q", slices.Collect(maps.Keys(want)))
	}
	p := Profile{Of: OffCPU, User: true, For: measure.Span(2 * time.Second),
		Threads: ThreadFilter{PIDs: []int{c.Process.Pid}}}
	known := map[string]bool{}
	for text := range want {
		for _, f := range strings.Split(text, "\t") {
			known[f] = true
		}
	}
	// what is freed when it returns may be gone before its name is read
	maps.DeleteFunc(want, func(text string, _ bool) bool {
		return strings.Contains(text, "{closure}") || strings.Contains(text, ";include\t")
	})
	missing := maps.Clone(want)
	until := time.Now().Add(time.Minute)
	for len(missing) > 0 && time.Now().Before(until) {
		got, err := p.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for s := range got.Stacks {
			text := measuredPHP(s.User)
			delete(missing, text)
			for _, f := range strings.Split(text, "\t") {
				if text != "" && !known[f] {
					t.Errorf("the program has no frame %s", f)
				}
			}
		}
	}
	for text := range missing {
		t.Errorf("not measured: %s", text)
	}
}
