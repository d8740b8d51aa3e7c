package symbol

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"culprit/kernel"
)

// TestLater: deferred names of a deleted program that has ended equal those of Stack.
func TestLater(t *testing.T) {
	bin := copied(t, "later")
	c := start(t, exec.Command(bin))
	if err := os.Remove(bin); err != nil {
		t.Fatal(err)
	}
	pid := c.cmd.Process.Pid
	var pcs []uint64
	for name, addr := range c.names {
		if name != "" {
			pcs = append(pcs, addr+3)
		}
	}
	pcs = append(pcs, 1) // nothing is there
	want := NewProcesses(kernel.Root{}).Stack(pid, pcs)
	if named := slices.ContainsFunc(want, func(p Place) bool { return p.Name != "" }); !named {
		t.Fatalf("nothing has a name: %v", want)
	}
	ps := NewProcesses(kernel.Root{})
	ps.DeferSymbols()
	reading := ps.Reading(pid)
	places, spots, _ := ps.Spots(pid, pcs)
	for i := range places {
		if places[i].Name != "" || places[i].Module != want[i].Module {
			t.Errorf("nothing was resolved, and it is %v, want only the module of %v", places[i],
				want[i])
		}
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
	for _, p := range ps.procs {
		p.checked, p.read = time.Time{}, time.Time{}
	}
	if again := ps.Reading(pid); reading == 0 || again != reading {
		t.Errorf("its maps are reading %d, and %d when it has ended", reading, again)
	}
	if ps.Reading(1<<30) != 0 {
		t.Error("there are maps of no process")
	}
	names, offsets := ps.Resolve(spots)
	for i := range places {
		if names[i] != want[i].Name || offsets[i]+uint64(min(i, 1)) != want[i].Offset &&
			names[i] != "" {
			t.Errorf("%s+%#x, want %v", names[i], offsets[i], want[i])
		}
	}
	if err := ps.Close(); err != nil {
		t.Fatal(err)
	}
}
