package sampler

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace"
	"culprit/trace/tracetest"
)

// twoTiers is a C program that runs code in anonymous memory. Its perf map names the code, and
// renames it after three seconds.
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
	for (int written = 0; time(0) < t + 9;) {
		g(1000000);
		if (!written && time(0) >= t + 3) {
			written = fprintf(f, "%lx 40 second_tier\n", (unsigned long)m + 0x100);
			fflush(f);
		}
	}
	unlink(name);
	for (;;)
		pause();
}`

// Samples of generated code have the name of the perf map at that time.
func TestProfileOfRenamedCode(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	pid := tracetest.Start(t, tracetest.CompileC(t, twoTiers))
	t.Cleanup(func() {
		os.Remove(fmt.Sprintf("/tmp/perf-%d.map", pid)) //nolint:errcheck // the program may have done so
	})
	p := Profile{
		Hz:      199,
		User:    true,
		Threads: ThreadFilter{PIDs: []int{pid}},
		For:     measure.Span(8 * time.Second),
	}
	got, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int64{}
	for s := range got.Stacks {
		for _, name := range []string{"first_tier", "second_tier", "thrown_away"} {
			has := func(f string) bool { return strings.Contains(f, name) }
			if slices.ContainsFunc(s.User, has) {
				of[name] += s.Count
			}
		}
	}
	if of["first_tier"] == 0 || of["second_tier"] < of["first_tier"] || of["thrown_away"] > 0 {
		t.Errorf("samples by name: %v", of)
	}
}

// generatedLeaves is a C program that runs two functions in anonymous memory: one with a frame and
// one without.
const generatedLeaves = `
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) void caller(void (*f)(unsigned long)) { f(3000000); __asm__ volatile(""); }
int main(void) {
	unsigned char framed[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0x5d, 0xc3};
	unsigned char bare[] = {0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3};
	unsigned char *m = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(m + 0x100, framed, sizeof framed);
	memcpy(m + 0x200, bare, sizeof bare);
#ifdef NAMED
	char name[64];
	snprintf(name, 64, "/tmp/perf-%d.map", getpid());
	FILE *f = fopen(name, "w");
	fprintf(f, "%lx 40 framed\n%lx 40 bare\n", (unsigned long)m + 0x100, (unsigned long)m + 0x200);
	fclose(f);
#endif
	for (time_t t = time(0); time(0) < t + 60;) {
		for (int i = 0; i < 7; i++)
			caller((void *)(m + 0x100));
		for (int i = 0; i < 3; i++)
			caller((void *)(m + 0x200));
	}
	return 0;
}`

// A stack that begins in generated code without a frame lacks its caller and has a mark. A stack
// that begins in code with a frame has its caller and no mark, also without a perf map.
func TestProfileOfGeneratedLeaves(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	for _, named := range []string{"-DNAMED", "-DUNNAMED"} {
		pid := tracetest.Start(t, tracetest.CompileC(t, generatedLeaves, named))
		t.Cleanup(func() {
			os.Remove(fmt.Sprintf("/tmp/perf-%d.map", pid)) //nolint:errcheck // it may have none
		})
		p := Profile{
			Hz:      499,
			User:    true,
			Threads: ThreadFilter{PIDs: []int{pid}},
			For:     measure.Span(4 * time.Second),
		}
		got, err := p.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var whole, marked, silent, both int64
		for s := range got.Stacks {
			if len(s.User) == 0 || strings.Contains(s.User[0], "`") { // not in generated code
				continue
			}
			mark := slices.Contains(s.User, trace.MissingFrame)
			caller := tracetest.HasChain(s.User, "caller", "main")
			switch {
			case caller && mark:
				both += s.Count
			case caller:
				whole += s.Count
			case mark:
				marked += s.Count
			default:
				silent += s.Count
				t.Logf("%d: %q", s.Count, s.User)
			}
		}
		all := whole + marked + silent + both
		t.Logf("%s: of %d samples %d are whole, %d marked, %d neither, %d both", named, all, whole, marked, silent, both)
		if all < 30 || silent > all/50 || both > all/50 || whole < all/2 || marked < all/10 {
			t.Errorf("%s: of %d samples %d are whole, %d marked, %d neither, %d both", named, all, whole, marked, silent, both)
		}
	}
}
