package cases

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wholeMachine are the stories of vm/faults, which concern the clock, the disks or the memory
// of a whole machine. Those without a rule are healthy twins.
func wholeMachine() map[string]Truth {
	return map[string]Truth{
		"clock-slow": {Rule: "clock-slow", Kind: []string{"host"},
			Names: []string{"hpet", "acpi_pm"}, Lowest: "low"},
		"clock-fast": {Never: []string{"clock-slow"}},
		"clock-steps": {Rule: "clock-steps", Kind: []string{"host"}, Names: []string{"wall clock"},
			Lowest: "low"},
		"clock-adjusted": {Never: []string{"clock-steps"}},
		"array-degraded": {Rule: "array-degraded", Kind: []string{"disk"}, Names: []string{"md0"}},
		"array-whole":    {Never: []string{"array-degraded"}},
		"disk-suspended": {Rule: "disk-suspended", Kind: []string{"disk"}, Names: []string{"dm-0"}},
		"disk-mapped":    {Never: []string{"disk-suspended", "disk-hangs"}},
		"numa-remote": {Rule: "numa-remote", Kind: []string{"memory"}, Names: []string{"NUMA node 1"},
			Lowest: "low"},
		"numa-local": {Never: []string{"numa-remote"}},
	}
}

// emulatedStories are those that are played: they take a minute each, emulated.
const envEmulated = "CULPRIT_EMULATED"

// TestEmulatedStories plays faults of a whole machine in an emulated one (vm/run). Findings about
// its CPUs do not count, because emulation keeps them busy. CULPRIT_EMULATED lists the stories, or
// is "all".
func TestEmulatedStories(t *testing.T) {
	only := os.Getenv(envEmulated)
	if quick() || only == "" {
		return
	}
	if only == "all" {
		only = ""
	}
	for _, tool := range []string{"qemu-system-x86_64", "busybox", "cpio", "zstd"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs: tool " + tool)
		}
	}
	const series = "6.1"
	if !haveKernel(series) {
		t.Skip("needs: tool kernel-" + series + " (vm/kernels fetches it)")
	}
	faults := filepath.Join(t.TempDir(), "faults")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", faults, "./vm/faults")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := exec.Command("vm/run", "-k", series, "-n", "2", "-t", "1500",
		"-m", "loop raid1 dm-mod tcp_diag", "-f", needProgram(t), faults,
		"-culprit", "./"+filepath.Base(needProgram(t)), "-for", "40s", "-only", only)
	out, err := run.CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	played := emulated(string(out))
	for name, truth := range wholeMachine() {
		if only != "" && !slices.Contains(strings.Split(only, ","), name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text, ok := played[name]
			if !ok {
				t.Fatalf("it was not played:\n%s", out)
			}
			var r report
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatalf("read the diagnosis: %v: %s", err, text)
			}
			for _, f := range r.Findings {
				t.Log("said: " + f.String())
			}
			for _, wrong := range judge(truth, r, "", true).Wrong {
				t.Error(wrong)
			}
		})
	}
}

// emulated returns what vm/faults printed: the diagnosis of each story.
func emulated(out string) map[string]string {
	all := map[string]string{}
	for _, part := range strings.Split(out, "\nstory ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		text, _, _ := strings.Cut(rest, "\n")
		all[strings.TrimSpace(name)] = text
	}
	return all
}

func TestEmulated(t *testing.T) {
	got := emulated("boot\n\nstory a\n{\"x\":1}\nmeasuring\n\nfailed c: no\n\nstory b\n{}\n")
	if len(got) != 2 || got["a"] != `{"x":1}` || got["b"] != "{}" {
		t.Errorf("%q", got)
	}
}
