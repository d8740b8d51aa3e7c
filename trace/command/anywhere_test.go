package command

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"
)

// anywhereWork fires a probe of its own 300 times: at once with an argument, else after SIGUSR1.
const anywhereWork = `
#include <signal.h>
#include <unistd.h>
#define PROBE(name) __asm__ volatile ( \
 "990: nop\n .pushsection .note.stapsdt,\"\",\"note\"\n .balign 4\n .4byte 992f-991f, 994f-993f, 3\n" \
 "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n .8byte _.stapsdt.base\n .8byte 0\n" \
 ".asciz \"%s\"\n .asciz \"" name "\"\n .asciz \"\"\n994: .balign 4\n .popsection\n" \
 ".ifndef _.stapsdt.base\n .pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
 " .weak _.stapsdt.base\n .hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n" \
 " .size _.stapsdt.base, 1\n .popsection\n.endif\n")
int main(int argc, char **argv) {
	sigset_t set;
	int got;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, 0);
	if (write(1, "waits\n", 6) < 0) return 1;
	if (argc == 1) sigwait(&set, &got);
	for (int i = 0; i < 300; i++) PROBE("tick");
	PROBE("done");
	return 0;
}`

// A pattern of providers without -p and -c is the probes of all processes, of several programs, and
// of those that start later.
func TestProvidersOfAllProcesses(t *testing.T) {
	tracetest.Needs(t, feature.Uprobe)
	var works []string
	var pids []int
	for _, provider := range []string{"culpritone", "culprittwo"} {
		work := tracetest.CompileC(t, strings.Replace(anywhereWork, "%s", provider, 1))
		c := exec.Command(work)
		_, out := tracetest.Pipe(t, c)
		t.Cleanup(func() {
			c.Process.Kill() //nolint:errcheck // it may have ended
			c.Wait()         //nolint:errcheck // it was killed
		})
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		works, pids = append(works, work), append(pids, c.Process.Pid)
	}
	for _, tt := range []struct{ probe, says string }{
		{"culprit*:::tock", "did you mean tick?"},
		{"culpret*:::tick", "no program that runs or is installed here has a provider culpret*"},
	} {
		t.Run(tt.probe, func(t *testing.T) {
			_, _, _, err := session(t.Context(), t, program("%s { }", tt.probe))
			if err == nil || !strings.Contains(fmt.Sprint(err), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
	r := program(`BEGIN { system("kill -USR1 %[1]d; sleep 0.2; kill -USR1 %[2]d; sleep 0.2; %[3]s now"); }
		culprit*:::tick { @[probeprov, pid == %[1]d ? 1 : pid == %[2]d ? 2 : 3] = count(); }
		culprit*:::done /pid != %[1]d && pid != %[2]d/ { exit(0); }`, pids[0], pids[1], works[0])
	r.Options = append(r.Options, "destructive")
	_, out, errs, err := session(t.Context(), t, r)
	if err != nil {
		t.Fatal(err, errs)
	}
	matches(t, out, "culpritone 1 300", "culprittwo 2 300", "culpritone 3 300")
}
