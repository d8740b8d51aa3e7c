package command

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/trace/tracetest"
)

// TestStackWithoutFramePointers: so is ustack() of a script, at a system call and at a function's
// first instruction; -x unwind=fp says that it shall not be.
func TestStackWithoutFramePointers(t *testing.T) {
	path := tracetest.CompileDeep(t)
	whole := regexp.MustCompile(
		"(?s)work`asking(\\+0x[0-9a-f]+)?\n.*libc.*`qsort.*work`main\\+0x[0-9a-f]+\n.*`__libc_start.*work`_start",
	)
	for _, text := range []string{`syscall::getppid:entry /pid == $target/ { @[ustack(), ustackdepth] = count(); n++; } syscall::getppid:entry /n == 20/ { exit(0); }`,
		`pid$target:a.out:asking:entry { @[ustack(), ustackdepth] = count(); n++; } pid$target:a.out:asking:entry /n == 20/ { exit(0); }`} {
		if strings.HasPrefix(text, "pid") && feature.Uprobe.Have(kernel.Root{}) != nil {
			continue
		}
		r := program("%s", text)
		r.Processes = []int{tracetest.Start(t, path, "ask")}
		_, out, errs := traced(t, r, nil)
		if !whole.MatchString(out) {
			t.Errorf("%s printed %q and said %q", text, out, errs)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if words := strings.Fields(lines[len(lines)-1]); len(words) != 2 ||
			words[0] != strconv.Itoa(len(lines)-1) ||
			words[1] != "20" {
			t.Errorf("%s: one stack of %d frames, 20 times, is %q", text, len(lines)-1, lines)
		}
		r.Options = append(r.Options, "unwind=fp")
		if _, out, _ := traced(t, r, nil); strings.HasPrefix(text, "syscall") &&
			whole.MatchString(out) {
			t.Errorf("%s followed frame pointers where there are none: %q", text, out)
		}
	}
}

// TestStackOfSignalHandler: a stack goes on from a signal's handler to what it interrupted.
func TestStackOfSignalHandler(t *testing.T) {
	r := program(
		"%s",
		`syscall::getppid:entry /pid == $target/ { @[ustack()] = count(); n++; } syscall::getppid:entry /n == 20/ { exit(0); }`,
	)
	r.Processes = []int{tracetest.Start(t, tracetest.CompileDeep(t), "signal")}
	_, out, errs := traced(t, r, nil)
	if !regexp.MustCompile("(?s)work`handler\\+0x[0-9a-f]+\n.*`kill.*work`tripped\\+0x[0-9a-f]+\n.*work`main\\+0x[0-9a-f]+\n.*work`_start").
		MatchString(out) {
		t.Errorf("printed %q and said %q", out, errs)
	}
}
