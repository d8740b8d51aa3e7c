package symbolizer

import (
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/symbol"
)

// code returns addresses of the C library and of the executable of a process.
func code(t *testing.T, pid int) (pcs []uint64) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	maps, _ := symbol.ParseMaps(b)
	for _, m := range maps {
		if m.Exec && m.Inode != 0 {
			for at := m.Start; at < m.End && len(pcs) < 4000; at += (m.End-m.Start)/700 + 1 {
				pcs = append(pcs, at)
			}
		}
	}
	return pcs
}

// sleeper starts a program with shared libraries.
func sleeper(t *testing.T) (pid int) {
	t.Helper()
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() }) // killed
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.Process.Pid))
		if err == nil && strings.Contains(string(b), "libc") {
			return c.Process.Pid
		}
		if time.Now().After(until) {
			t.Skip("needs: tool sleep with a shared C library")
		}
	}
}

// TestNamesAsInOneProcess: addresses have the same names whether this process or another one reads
// the files, in each way that names are looked up.
func TestNamesAsInOneProcess(t *testing.T) {
	c, reported := client(t, always("good"))
	pid := sleeper(t)
	pcs := code(t, pid)
	stacks := []symbol.Asked{{PID: pid, PCs: pcs}}
	for _, tt := range []struct {
		name  string
		names func(ps *symbol.Processes) []string
	}{
		{"a stack", func(ps *symbol.Processes) (out []string) {
			for _, p := range ps.Stack(pid, pcs) {
				out = append(out, p.String())
			}
			return out
		}},
		{"a place", func(ps *symbol.Processes) []string {
			return []string{ps.Place(pid, pcs[0]).String(), ps.Place(pid, pcs[99]).String()}
		}},
		{"learned", func(ps *symbol.Processes) (out []string) {
			ps.DisableSymbolCache()
			ps.Learn(stacks)
			places, _, _ := ps.Spots(pid, pcs)
			for _, p := range places {
				out = append(out, p.String())
			}
			return out
		}},
		{"resolved later", func(ps *symbol.Processes) (out []string) {
			ps.DeferSymbols()
			_, spots, _ := ps.Spots(pid, pcs)
			names, offsets := ps.Resolve(spots)
			for i := range names {
				out = append(out, fmt.Sprintf("%s+%d", names[i], offsets[i]))
			}
			return out
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := symbol.NewToolFiles(c)
			own, apart := symbol.NewProcesses(kernel.Root{}), symbol.NewProcessesOf(kernel.Root{},
				files)
			defer own.Close()   //nolint:errcheck // nil
			defer apart.Close() //nolint:errcheck // nil
			want, got := tt.names(own), tt.names(apart)
			if !slices.Equal(got, want) {
				for i := range want {
					if got[i] != want[i] {
						t.Fatalf("%x is %s, want %s", pcs[i], got[i], want[i])
					}
				}
			}
			if text := strings.Join(want, " "); !strings.Contains(text, "malloc") &&
				tt.name != "a place" {
				t.Errorf("no function of the C library is among %.300s", text)
			}
			took := files.Took()
			if took <= 0 && tt.name == "a stack" || took < 0 {
				t.Errorf("the other process took %v", took)
			}
			if away := apart.TakeAway(); away < took {
				t.Errorf("%v was used elsewhere, less than the %v of the other process", away, took)
			}
		})
	}
	if reported() != "" {
		t.Error(reported())
	}
}

// TestEndedProcess: the addresses of a process whose files were opened have names after it ended.
func TestEndedProcess(t *testing.T) {
	c, _ := client(t, always("good"))
	pid := sleeper(t)
	pcs := code(t, pid)
	ps := symbol.NewProcessesOf(kernel.Root{}, symbol.NewToolFiles(c))
	defer ps.Close() //nolint:errcheck // nil
	if err := ps.OpenMappedFiles(pid); err != nil {
		t.Fatal(err)
	}
	want := symbol.NewProcesses(kernel.Root{}).Stack(pid, pcs)
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Kill()    // the next line fails then
	_, _ = p.Wait() // killed
	if got := ps.Stack(pid, pcs); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got[:9], want[:9])
	}
}

// TestUnwindingAsInOneProcess: unwind tables are the same whoever reads them.
func TestUnwindingAsInOneProcess(t *testing.T) {
	c, _ := client(t, always("good"))
	pid := sleeper(t)
	own, err := symbol.NewUnwinding(kernel.Root{}, nil, nil).Executed(pid)
	if err != nil {
		t.Fatal(err)
	}
	apart, err := symbol.NewUnwinding(kernel.Root{}, nil, symbol.NewToolFiles(c)).Executed(pid)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for i := range own {
		if !reflect.DeepEqual(own[i], apart[i]) {
			t.Errorf("%x: %d rows, want %d", own[i].Start, len(apart[i].Table.Rows),
				len(own[i].Table.Rows))
		}
		if own[i].Table != nil {
			rows += len(own[i].Table.Rows)
		}
	}
	if rows < 1000 {
		t.Errorf("%d rows", rows)
	}
}

// TestNamesAfterFailure: a server whose reader fails names no address and says so. Later it has the
// names.
func TestNamesAfterFailure(t *testing.T) {
	c, _ := client(t, func(n int) string {
		if n == 1 {
			return "noise"
		}
		return "good"
	})
	pid := sleeper(t)
	var pcs []uint64
	for i, p := range symbol.NewProcesses(kernel.Root{}).Stack(pid, code(t, pid)) {
		if p.Name != "" && i > 0 && pcs == nil {
			pcs = []uint64{p.Address}
		}
	}
	ps := symbol.NewProcessesOf(kernel.Root{}, symbol.NewFiles(c))
	ps.DisableSymbolCache()
	want := symbol.NewProcesses(kernel.Root{}).Stack(pid, pcs)[0]
	ps.Learn([]symbol.Asked{{PID: pid, PCs: pcs}})
	if got := ps.Stack(pid, pcs)[0]; got.Name != "" || !got.Late {
		t.Errorf("%+v has a name, or never will", got)
	}
	if notes := strings.Join(ps.Notes(), "\n"); !strings.Contains(notes, "did not answer") {
		t.Errorf("notes: %q", notes)
	}
	for until := time.Now().Add(time.Minute); time.Now().Before(until); {
		ps.Learn([]symbol.Asked{{PID: pid, PCs: pcs}})
		if got := ps.Stack(pid, pcs)[0]; got == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%v, want %v", ps.Stack(pid, pcs)[0], want)
}
