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
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace/tracetest"
)

// perlProgram spends 70 % of its time in seventy and 30 % in thirty. Between recurse and compare
// are functions of C.
const perlProgram = `sub leaf {
    my $n = shift;
    my $x = 1;
    for (my $i = 0; $i < $n; $i++) {
        $x = $x * 3 % 1000003;
    }
    return $x;
}
sub seventy { leaf(7000) }
sub thirty { leaf(3000) }
sub compare {
    seventy();
    return $a <=> $b;
}
package Work;
sub recurse {
    my ($self, $n) = @_;
    if ($n > 0) {
        $self->recurse($n - 1);
        return;
    }
    my @sorted = sort main::compare 2, 1;
}
package main;
while (1) {
    Work->recurse(3);
    my $later = sub { thirty() };
    $later->();
}
`

// perlReports prints how many threads it has, and each stack with which they sleep, once: line,
// file and sub of each frame, then "end" once per thread. Blocks of eval are no frames.
const perlReports = `use strict; use warnings;
BEGIN { package Report; $INC{'Report.pm'} = 1; my %seen;
sub now {
    my @frames;
    my @at = caller(0);
    for (my $i = 1;; $i++) {
        my @sub = caller($i);
        next if @sub && $sub[3] eq '(eval)' && !defined $sub[6];
        push @frames, join(';', $at[2], $at[1], @sub ? $sub[3] : '(main)');
        last if !@sub;
        @at = @sub;
    }
    pop @frames if $INC{'threads.pm'} && threads->tid; # it has no program
    my $frames = join("\t", @frames);
    print "$frames\n" unless $seen{$frames}++;
    select undef, undef, undef, 0.01;
} }
package Tied;
sub TIESCALAR { return bless {}, shift }
sub FETCH {
    Report::now();
    return 1;
}
package Number;
use overload '+' => \&plus;
sub plus {
    Report::now();
    return 3;
}
package Ends;
sub DESTROY {
    Report::now();
}
package Outer::Base;
our $AUTOLOAD;
sub AUTOLOAD {
    return if $AUTOLOAD =~ /DESTROY/;
    Report::now();
}
sub base {
    Report::now();
}
package Outer::Inner;
our @ISA = ('Outer::Base');
sub start {
    my ($class, $n) = @_;
    return $class->run($n);
}
sub run {
    my ($class, $n) = @_;
    return $class->run($n - 1) if $n > 0;
    my $code = sub {
        Report::now();
    };
    for my $x (1) {
        while (1) {
            $code->();
            last;
        }
    }
    eval {
        eval {
            $class->base();
        };
        die "x";
    };
    $class->missing();
    &jump;
}
sub jump {
    goto &Outer::Base::base;
}
package main;
use List::Util 'first';
sub compare {
    Report::now();
    return $a <=> $b;
}
sub block {
    Report::now();
    return 1;
}
sub called {
    my @sorted = sort compare 2, 1;
    @sorted = sort {
        block();
        $a <=> $b;
    } 2, 1;
    my $found = first {
        block();
    } 1;
    "x" =~ /x(?{ block() })/;
    my $sum = bless({}, 'Number') + 1;
    tie my $tied, 'Tied';
    $sum = "$tied";
    { my $ends = bless {}, 'Ends'; }
    eval {
        made();
    };
    do $ARGV[0];
    lexical();
}
eval 'sub made {
    Report::now();
}';
use feature 'lexical_subs';
no warnings;
my sub inner {
    Report::now();
}
sub lexical {
    inner();
}
my $threads = eval { require threads; 1 };
$| = 1;
print $threads ? "2\n" : "1\n";
if ($threads) {
    threads->create(sub {
        for (my $i = 0;; $i++) {
            Outer::Inner->start(2);
            print "end\n" if !$i;
        }
    })->detach;
}
for (my $i = 0;; $i++) {
    Outer::Inner->start(1);
    called();
    Report::now();
    print "end\n" if !$i;
}
`

// perlsHere returns the interpreters of this machine by version: 5.36 and others.
func perlsHere(t *testing.T) map[string]string {
	t.Helper()
	tracetest.Needs(t, feature.RawTracepoints)
	if runtime.GOARCH != "amd64" || tracetest.TablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	home, _ := os.UserHomeDir() // without it there are fewer
	found, _ := filepath.Glob("/opt/perls/*/bin/perl")
	more, _ := filepath.Glob(filepath.Join(home, "perl5/perlbrew/perls/*/bin/perl"))
	found = append(found, more...)
	if p, err := exec.LookPath("perl"); err == nil {
		found = append(found, p)
	}
	out := map[string]string{}
	for _, p := range found {
		version, err := exec.Command(p, "-e", `printf "%vd", $^V`).Output()
		parts := strings.Split(string(version), ".")
		if err != nil || len(parts) != 3 || parts[0] != "5" {
			continue
		}
		minor, err := strconv.Atoi(parts[1])
		if err == nil && minor >= 28 && minor <= 40 && minor%2 == 0 {
			out["5."+parts[1]] = p
		}
	}
	if len(out) == 0 {
		t.Skip("needs: tool perl5.36.0, or another version with a table")
	}
	return out
}

// perlScript writes a program and returns its path.
func perlScript(t *testing.T, text string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "program.pl")
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return script
}

// perlFrames returns the subs of Perl in a stack, innermost first.
func perlFrames(stack []string) (out []string) {
	for _, f := range stack {
		if name, _, is := strings.Cut(f, " ("); is {
			out = append(out, name)
		}
	}
	return out
}

// Stacks of Perl have its subs in place of the function that runs operations, in the order of
// calls, with functions of C between them, and in the right shares.
func TestProfileOfPerlFrames(t *testing.T) {
	perls := perlsHere(t)
	script := perlScript(t, perlProgram)
	p := Profile{Hz: 499, User: true, For: measure.Span(5 * time.Second)}
	versions := map[int]string{}
	for v, perl := range perls {
		pid := tracetest.Start(t, perl, script)
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
	for v := range perls {
		of[v] = &counts{}
	}
	leaf := fmt.Sprintf("main::leaf (%s:2)", script)
	for s := range got.Stacks {
		c := of[versions[s.PID]]
		names := strings.Join(perlFrames(s.User), " < ")
		_, names, in := strings.Cut(names, "main::leaf < ")
		all := strings.Join(s.User, "\n")
		switch {
		case !in:
			c.other += s.Count
			continue
		case strings.HasPrefix(names, "main::seventy"):
			c.seventy += s.Count
			_, below, _ := strings.Cut(all, "\nmain::compare (")
			between, _, _ := strings.Cut(below, "\nWork::recurse (")
			if names == "main::seventy < main::compare < Work::recurse < Work::recurse < "+
				"Work::recurse < Work::recurse < (main)" && strings.Contains(between, "\n") &&
				slices.Contains(s.User, leaf) && !strings.Contains(all, "runops") {
				c.whole += s.Count
				continue
			}
		case strings.HasPrefix(names, "main::thirty"):
			c.thirty += s.Count
			if names == "main::thirty < main::__ANON__ < (main)" {
				c.whole += s.Count
				continue
			}
		}
		c.odd = slices.Clone(s.User)
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

// measuredPerl returns a stack as perlReports prints it, from the caller of Report::now on; "": it
// is not one of those.
func measuredPerl(stack []string) string {
	var out []string
	for _, f := range stack {
		if strings.Contains(f, "name could not be read") {
			return "" // what do FILE and eval have compiled may be freed before its name is read
		}
		if m := placed.FindStringSubmatch(f); m != nil && !strings.HasSuffix(m[2], ".c") {
			out = append(out, m[3]+";"+m[2]+";"+m[1])
		}
	}
	if len(out) < 2 || !strings.HasSuffix(out[0], ";Report::now") {
		return ""
	}
	return strings.Join(out[1:], "\t")
}

// The stacks with which threads sleep have the names, files and lines that the program itself
// reports.
func TestOffCPUOfPerl(t *testing.T) {
	required := filepath.Join(t.TempDir(), "required.pl")
	if err := os.WriteFile(required, []byte("\n\nReport::now();\n1;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for v, perl := range perlsHere(t) {
		t.Run(v, func(t *testing.T) {
			c := exec.Command(perl, perlScript(t, perlReports), required)
			_, out := tracetest.Pipe(t, c)
			t.Cleanup(func() { c.Process.Kill() }) //nolint:errcheck // it may have ended
			lines := bufio.NewScanner(out)
			lines.Scan()
			want := map[string]bool{}
			for threads, _ := strconv.Atoi(lines.Text()); threads > 0 && lines.Scan(); {
				if lines.Text() == "end" {
					threads--
				} else {
					want[lines.Text()] = true
				}
			}
			const least = 15 // sleeps of the main thread
			if len(want) < least {
				t.Fatalf("the program reports %q", slices.Collect(maps.Keys(want)))
			}
			p := Profile{Of: OffCPU, User: true, For: measure.Span(2 * time.Second),
				Threads: ThreadFilter{PIDs: []int{c.Process.Pid}}}
			missing, unknown := maps.Clone(want), map[string]bool{}
			var all, right int64
			until := time.Now().Add(time.Minute)
			for len(missing) > 0 && time.Now().Before(until) {
				got, err := p.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for s := range got.Stacks {
					text := measuredPerl(s.User)
					if text == "" {
						continue
					}
					all++
					delete(missing, text)
					if want[text] {
						right++
					} else {
						unknown[text] = true
					}
				}
				// what do FILE has compiled may be freed before its name is read
				maps.DeleteFunc(missing, func(text string, _ bool) bool {
					return strings.Contains(text, ";(eval)\t")
				})
			}
			for text := range missing {
				t.Errorf("not measured: %s", text)
			}
			if all == 0 || right < all*8/10 {
				t.Errorf("of %d stacks %d are reported, not %q", all, right,
					slices.Collect(maps.Keys(unknown)))
			}
		})
	}
}
