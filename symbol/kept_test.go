package symbol

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
)

// procDir makes a directory as /proc with processes; mappings returns how many each has.
func procDir(t *testing.T, processes int, mappings func(pid int) int) string {
	t.Helper()
	dir := t.TempDir()
	for pid := 1; pid <= processes; pid++ {
		proc := filepath.Join(dir, fmt.Sprint(pid))
		if err := os.Mkdir(proc, 0o700); err != nil {
			t.Fatal(err)
		}
		var maps strings.Builder
		for i := range mappings(pid) {
			at := 0x400000 + 0x1000*i
			fmt.Fprintf(&maps, "%x-%x r-xp 00000000 fd:01 %d /nowhere/of-%d/lib%d.so\n", at,
				at+0x1000, pid*1_000_000+i, pid%7, i)
		}
		stat := fmt.Sprintf("%d (a) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 %d 100\n", pid,
			1000+pid)
		for name, text := range map[string]string{"stat": stat, "maps": maps.String()} {
			if err := os.WriteFile(filepath.Join(proc, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// What is kept of all processes stays within the bounds, however many there are and whatever they
// map; the newest is kept.
func TestMappingsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name      string
		processes int
		mappings  func(pid int) int
		lean      bool
	}{
		{"many small processes", 700, func(int) int { return 3 }, true},
		{"processes with many mappings", 60, func(pid int) int { return 1000 + pid }, true},
		{"one large process among small ones", 60,
			func(pid int) int { return 20 + b2i(pid == 30)*30_000 }, true},
		{"symbols are kept too", 40, func(int) int { return 9000 }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ps := NewProcesses(kernel.Root{Proc: procDir(t, tt.processes, tt.mappings)})
			if tt.lean {
				ps.DisableSymbolCache()
			}
			for pid := 1; pid <= tt.processes; pid++ {
				ps.Place(pid, 0x400010)
				sum, newest := 0, 0
				for _, p := range ps.procs {
					if sum += p.cost(); p.used == ps.tick {
						newest = p.cost()
					}
				}
				if len(ps.procs) > ps.limits.processes || sum > max(ps.limits.mappings, newest) {
					t.Fatalf("after process %d, %d processes of %d bytes are kept, of at most %d "+
						"of %d", pid, len(ps.procs), sum, ps.limits.processes, ps.limits.mappings)
				}
				if ps.procs[pid] == nil {
					t.Fatalf("process %d, the newest, is not kept", pid)
				}
			}
			if len(ps.objects) > ps.limits.files || len(ps.texts) > mostTexts {
				t.Errorf("%d files and %d paths are kept", len(ps.objects), len(ps.texts))
			}
		})
	}
}

// In a server, a process that nobody asked for within a minute is forgotten when another one comes.
// A script may ask for its processes when it ends, however long that takes.
func TestIdleProcessIsForgotten(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits limits
		kept   bool
	}{{"in a server", leanLimits, false}, {"for a script", usualLimits, true}} {
		t.Run(tt.name, func(t *testing.T) {
			ps := NewProcesses(kernel.Root{Proc: procDir(t, 3, func(int) int { return 2 })})
			ps.limits = tt.limits
			ps.Place(1, 0x400010)
			ps.Place(2, 0x400010)
			ps.procs[1].checked = time.Now().Add(-leanLimits.idle - time.Second)
			ps.swept = time.Time{}
			ps.Place(3, 0x400010)
			if (ps.procs[1] != nil) != tt.kept || ps.procs[2] == nil || ps.procs[3] == nil {
				t.Errorf("kept: %v", ps.procs)
			}
		})
	}
}

// A process with more mappings than are kept is noted, one with as many is not.
func TestManyMappingsAreNoted(t *testing.T) {
	for _, tt := range []struct {
		name     string
		mappings int
		noted    bool
	}{{"as many as are kept", mostMappings, false}, {"one more", mostMappings + 1, true}} {
		t.Run(tt.name, func(t *testing.T) {
			ps := NewProcesses(kernel.Root{Proc: procDir(t, 1,
				func(int) int { return tt.mappings })})
			ps.Place(1, 0x400010)
			notes := strings.Join(ps.Notes(), "\n")
			if len(ps.procs[1].maps) != mostMappings ||
				strings.Contains(notes, "32768 mappings") != tt.noted {
				t.Errorf("%d mappings, notes %q", len(ps.procs[1].maps), notes)
			}
		})
	}
}

// What was learned since the turn before is known, whatever came before, and no more than the bound
// besides one turn's is kept.
func TestLearntIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	l := &learnt{most: 100}
	files := []*object{{}, {}, {}}
	for turn := range 300 {
		l.turn()
		type at struct {
			o    *object
			addr uint64
		}
		fresh := map[at]string{}
		for range r.IntN(150) {
			a := at{files[r.IntN(3)], uint64(r.IntN(500))}
			if _, known := l.get(a.o, a.addr); !known {
				l.put(a.o, a.addr, learned{name: fmt.Sprint(turn, a.addr)})
				fresh[a] = fmt.Sprint(turn, a.addr)
			}
		}
		for a, name := range fresh {
			if one, known := l.get(a.o, a.addr); !known || one.name != name {
				t.Fatalf("turn %d: %q, want %q", turn, one.name, name)
			}
		}
		if n := len(l.now[files[0]]) + len(l.now[files[1]]) + len(l.now[files[2]]); n != l.n {
			t.Fatalf("turn %d: %d addresses counted, %d are there", turn, l.n, n)
		}
		if l.len() > 50+150+50+150 {
			t.Fatalf("turn %d: %d addresses", turn, l.len())
		}
		if r.IntN(20) == 0 {
			l.drop(files[r.IntN(3)])
		}
	}
}
