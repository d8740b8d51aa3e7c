package probe

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/measure"
)

// Variables that are found without the kernel's table of symbols have the address that the table
// lists, if it lists them. Their contents are those that the kernel reports elsewhere.
func TestUnlisted(t *testing.T) {
	e := NewEnv(kernel.Root{})
	defer e.Close()
	m, err := bpf.NewMemory()
	if errors.Is(err, measure.ErrDenied) {
		t.Skip("needs: root")
	}
	if errors.Is(err, measure.ErrUnsupported) {
		t.Skip("needs: kernel feature programs that are run by a system call (5.14)")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := e.unlisted("no_such_variable"); !errors.Is(err, errNotListed) {
		t.Errorf("what there is not: %v", err)
	}
	at := map[string]uint64{}
	listed := 0
	for name := range fromInitTask {
		if at[name], err = e.unlisted(name); err != nil {
			t.Error(err)
		}
		if a, _, ok := e.symbols.Lookup("", name); ok {
			listed++
			if a != at[name] {
				t.Errorf(
					"%s is at %#x, found without the table of symbols at %#x", name, a, at[name],
				)
			}
		}
		if again, err := e.unlisted(name); again != at[name] || err != nil {
			t.Errorf("%s is at %#x the second time: %v", name, again, err)
		}
	}
	t.Logf("%d of %d are in the table of symbols too", listed, len(at))
	banner, err := e.unlisted("linux_banner")
	if err != nil {
		t.Fatal(err)
	}
	if a, _, ok := e.symbols.Lookup("", "linux_banner"); ok && a != banner {
		t.Errorf("linux_banner is at %#x, found without the table of symbols at %#x", a, banner)
	}
	want, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want)+1)
	if err := m.Read(banner, got); err != nil || !bytes.Equal(got, append(want, 0)) {
		t.Errorf("linux_banner is %q: %v", got, err)
	}
	spec, err := e.BTF()
	if err != nil {
		t.Fatal(err)
	}
	task, err := taskStruct(spec)
	if err != nil {
		t.Fatal(err)
	}
	off, _ := memberOf(task, "comm")
	comm := make([]byte, len("swapper"))
	if err := m.Read(at["init_task"]+uint64(off), comm); err != nil || string(comm) != "swapper" {
		t.Errorf("init_task is called %q: %v", comm, err)
	}
}
