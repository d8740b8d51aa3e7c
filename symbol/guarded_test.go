package symbol

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/kernel/proc/proctest"
)

// TestMain lets the test binary also be the process that hangs.
func TestMain(m *testing.M) {
	proctest.Main()
	os.Exit(m.Run())
}

// waits is how long a call for a process that hangs may take on a loaded machine.
const waits = 20 * time.Second

// Names of a process that hangs in execve(2) are missing, with the reason; no call waits for it,
// and names of others are found. When it hangs no longer, its names are found too.
func TestProcessThatHangsInExecve(t *testing.T) {
	pid, begin, end := proctest.StartHanging(t)
	p, err := NewProcesses(kernel.Root{}).process(pid) // its maps are known
	if err != nil {
		t.Fatal(err)
	}
	code := p.maps[0].Start
	for i := range p.maps {
		if p.maps[i].Exec {
			code = p.maps[i].Start + 1
			break
		}
	}
	begin()
	var ps *Processes
	for _, tt := range []struct {
		name string
		call func() error
	}{
		{"open files", func() error { return ps.OpenMappedFiles(pid) }},
		{"read files", func() error { return ps.ReadMappedFiles(pid) }},
		{"a file of a mapping", func() error { _, _, err := ps.open(p, &p.maps[0]); return err }},
		{"memory", func() error { _, err := ps.memoryOf(p, code, code+1); return err }},
		{"opened memory", func() error { _, err := ps.openMemory(p); return err }},
		{"code", func() error { _, err := ps.Code(pid); return err }},
		{"a place", func() error { ps.Place(pid, code); return proc.ErrHangs }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ps = NewProcesses(kernel.Root{})
			ps.files.guard.Limit = 100 * time.Millisecond
			for range 2 {
				began := time.Now()
				if err := tt.call(); !errors.Is(err, proc.ErrHangs) {
					t.Errorf("%v, want that the read does not return", err)
				}
				if took := time.Since(began); took > waits {
					t.Errorf("it took %v", took)
				}
			}
			if n := ps.files.guard.Late(); n != 1 {
				t.Errorf("%d reads of one process hang, want 1", n)
			}
		})
	}
	notes := strings.Join(ps.Notes(), "\n")
	if !strings.Contains(notes, "addresses of one process have no names: reading") {
		t.Errorf("notes: %q", notes)
	}
	ps.files.guard.Limit = waits
	own := ps.Place(os.Getpid(), uint64(reflect.ValueOf(TestMain).Pointer()))
	if !strings.Contains(own.Name, "TestMain") {
		t.Errorf("a place of another process is %v", own)
	}
	end()
	proctest.WaitUntil(t, "the process is read again", func() bool {
		return ps.OpenMappedFiles(pid) == nil && ps.files.guard.Late() == 0
	})
}

// Unwind tables of a process that hangs are missing, and are read when it hangs no longer.
func TestUnwindingOfProcessThatHangs(t *testing.T) {
	pid, begin, end := proctest.StartHanging(t)
	begin()
	u := NewUnwinding(kernel.Root{}, nil, nil)
	u.ps.files.guard.Limit = 100 * time.Millisecond
	if _, err := u.Executed(pid); !errors.Is(err, proc.ErrHangs) {
		t.Errorf("%v, want that the read does not return", err)
	}
	u.ps.files.guard.Limit = waits
	if code, err := u.Executed(os.Getpid()); err != nil || len(code) == 0 {
		t.Errorf("%d ranges of another process, %v", len(code), err)
	}
	end()
	proctest.WaitUntil(t, "its code is known", func() bool {
		code, err := u.Executed(pid)
		return err == nil && len(code) > 0
	})
}
