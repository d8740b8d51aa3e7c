package trace

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/measure"
)

// twoTiers runs code in anonymous memory, of which its perf map first says one name, and after
// three seconds another one.
const twoTiers = `
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
int main(void) {
	unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0x5d, 0xc3};
	unsigned char *m = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(m + 0x100, code, sizeof code);
	char name[64];
	snprintf(name, 64, "/tmp/perf-%d.map", getpid());
	FILE *f = fopen(name, "w");
	fprintf(f, "%lx 4 thrown_away\n%lx 40 first_tier\n", (unsigned long)m + 0x104, (unsigned long)m + 0x100);
	fflush(f);
	void (*g)(unsigned long) = (void *)(m + 0x100);
	time_t t = time(0);
	for (int told = 0; time(0) < t + 9;) {
		g(1000000);
		if (!told && time(0) >= t + 3) {
			told = fprintf(f, "%lx 40 second_tier\n", (unsigned long)m + 0x100);
			fflush(f);
		}
	}
	unlink(name);
	for (;;)
		pause();
}`

// TestProfileOfRenamedCode: samples of generated code have the name that its map had when they were
// taken.
func TestProfileOfRenamedCode(t *testing.T) {
	needs(t, kernel.RawTracepoints)
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	pid := started(t, compiled(t, twoTiers))
	t.Cleanup(func() {
		os.Remove(fmt.Sprintf("/tmp/perf-%d.map", pid)) //nolint:errcheck // the program may have done so
	})
	p := Profile{Hz: 199, User: true, Who: Who{PIDs: []int{pid}}, For: measure.Span(8 * time.Second)}
	got, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int64{}
	for s := range got.Stacks {
		for _, name := range []string{"first_tier", "second_tier", "thrown_away"} {
			if slices.ContainsFunc(s.User, func(f string) bool { return strings.Contains(f, name) }) {
				of[name] += s.Count
			}
		}
	}
	if of["first_tier"] == 0 || of["second_tier"] < of["first_tier"] || of["thrown_away"] > 0 {
		t.Errorf("samples by name: %v", of)
	}
}
