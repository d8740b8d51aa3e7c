package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// prints says, for each worked example of docs/D.md in its order, what must be in its output; "":
// it may print nothing here.
//
// table: made once, never changed
var prints = []string{
	`\d`,
	`read +\d`,
	`\d`,
	`Distribution`,
	`\d`,
	`Distribution`,
	`Distribution`,
	`read +\d+ +\d+ +\d+`,
	`/`,
	`/`,
	`\d`,
	`20\d\d `,
	`\d`,
	`/`,
	`\d`,
	``,
	`\x60`,
	`\d`,
	`\x60`,
	`\d`,
	`Distribution`,
	`\d`,
	`\d+ calls`,
	``,
	`lo +\d`,
	`Distribution`,
	`\d`,
	`\d`,
	`\d`,
	`\x60`,
	`\d`,
	`fork|exit`,
	`sched_switch`,
	`\d+ ns`,
	``,
	``,
	`mean \d+, deviation \d+`,
	`%`,
	``,
	``,
	`Distribution`,
	`malloc +\d`,
	`Distribution`,
	`malloc`,
	`memory +\d`,
	`127\.0\.0\.1 +\d+ +\d`,
	`127\.0\.0\.1 +\d+ +\d`,
	`Distribution`,
	`127\.0\.0\.1 +\d`,
	`state-syn-sent +state-established +\d`,
	`127\.0\.0\.1 +(UDP|TCP) +\d`,
	`Distribution`,
	`/bin/true`,
	`(?s)true.*Distribution`,
	`\x60`,
	`Distribution`,
	``,
	``,
	``,
	`/work +\d`,
	`\w+ +/`,
	`/`,
	``,
}

// examples reads the worked examples: the lines that are indented as code in a list.
func examples(t *testing.T) []string {
	b, err := os.ReadFile("../../docs/D.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "       "); ok {
			out = append(out, strings.TrimSpace(text))
		}
	}
	return out
}

// busy does some of everything that the examples trace, until the context ends.
func busy(ctx context.Context, dir string) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return
	}
	defer conn.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return
	}
	defer listener.Close()
	buf := make([]byte, 8192)
	for i := 0; ctx.Err() == nil; i++ {
		name := filepath.Join(dir, "work")
		if err := os.WriteFile(name, buf, 0o600); err != nil {
			return
		}
		os.ReadFile(name)                         //nolint:errcheck // it is done to be seen
		os.Open("/no/such/file")                  //nolint:errcheck // as above
		conn.WriteTo(buf[:500], conn.LocalAddr()) //nolint:errcheck // as above
		conn.ReadFrom(buf)                        //nolint:errcheck // as above
		if client, err := net.Dial("tcp", listener.Addr().String()); err == nil {
			if server, err := listener.Accept(); err == nil {
				client.Write(buf[:100]) //nolint:errcheck // as above
				server.Close()
			}
			client.Close()
		}
		unix.Getppid()
		// some time in the program, and some in the kernel
		for start := time.Now(); time.Since(start) < time.Millisecond; {
			unix.Getpid()
			unix.Stat(name, &unix.Stat_t{}) //nolint:errcheck // as above
		}
		if i%10 == 0 {
			exec.CommandContext(ctx, "/bin/true").Run() //nolint:errcheck // as above
		}
		// an emulated machine has few CPUs, and the examples need them
		time.Sleep(4 * time.Millisecond)
	}
}

func TestWorkedExamples(t *testing.T) {
	all := examples(t)
	if len(all) != len(prints) {
		t.Fatalf("docs/D.md has %d examples, and what %d print is known", len(all), len(prints))
	}
	if err := feature.RawTracepoints.Have(kernel.Root{}); errors.Is(err, measure.ErrDenied) {
		t.Skip("needs: root")
	} else if err != nil {
		t.Skip("needs: kernel feature raw tracepoints")
	}
	load, stop := context.WithCancel(t.Context())
	defer stop()
	go busy(load, t.TempDir())
	t.Run("all", func(t *testing.T) {
		for i, text := range all {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				worked(t, text, regexp.MustCompile(prints[i]))
			})
		}
	})
}

// worked runs an example until it has printed what it must, longer each time: most have within a
// moment, and some do once a second.
func worked(t *testing.T, text string, want *regexp.Regexp) {
	if strings.HasPrefix(text, "fbt:") && feature.Kprobe.Have(kernel.Root{}) != nil &&
		feature.Fentry.Have(kernel.Root{}) != nil {
		t.Skip("needs: kernel feature kprobes or fentry")
	}
	if strings.HasPrefix(text, "pid") && feature.Uprobe.Have(kernel.Root{}) != nil {
		t.Skip("needs: kernel feature uprobe")
	}
	var out, errs string
	for last := 150 * time.Millisecond; last <= 16*time.Second; last *= 2 {
		r := Request{Parts: []Part{{'n', text}}, Options: []string{"quiet"}}
		if strings.Contains(text, "$target") {
			r.Commands = []string{"cat /proc/sys/kernel/hostname"}
		}
		ctx, cancel := context.WithCancel(t.Context())
		if strings.Contains(text, "exit(") {
			r.begun = func() { time.AfterFunc(30*time.Second, cancel) }
		} else {
			r.begun = func() { time.AfterFunc(last, cancel) }
		}
		var err error
		_, out, errs, err = session(ctx, t, r)
		cancel()
		if err != nil && strings.Contains(err.Error(), " no libc ") &&
			strings.Contains(text, "$target:libc:") {
			t.Skip("needs: tool cat that is not static")
		}
		if old := feature.LockContention.Since(kernel.Root{}); err != nil && old != "" &&
			strings.HasPrefix(text, "lockstat:") &&
			strings.Contains(err.Error(), old) {
			return // the error names the version that brought it
		}
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		if want.MatchString(out) {
			// A process may end before its maps can be read: then it is said that its addresses
			// have no names.
			errs = regexp.MustCompile(`(?m)^culprit: addresses of .* have no names: ended before the maps could be read\n`).
				ReplaceAllString(errs, "")
			// TestFramePointersAreNoted
			errs = regexp.MustCompile(`(?m)^culprit: warning: user stacks follow frame pointers.*\n`).
				ReplaceAllString(errs, "")
			// programs of other tests run on these CPUs too
			errs = missedLine.ReplaceAllString(errs, "")
			// What a process has named and not touched yet is not in memory, and can't be read
			// where nothing may wait for the disk.
			untouched := strings.Contains(text, "copyinstr") &&
				strings.Count(errs, "\n") == strings.Count(errs, "invalid address")
			if errs != "" && !untouched {
				t.Errorf("%s\nsaid %s", text, errs)
			}
			return
		}
	}
	t.Errorf("%s\nprinted %.400q and said %q, want %v", text, out, errs, want)
}
