package symbol

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"culprit/kernel"
	"culprit/kernel/bpf"
)

// A mapping takes the place of what was there, page by page: the same as with an array of pages.
func TestInsertIsMmap(t *testing.T) {
	const pages = 24
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := &process{keys: map[int]fileKey{}}
		var want [pages]string
		for n := range 20 {
			from := r.IntN(pages)
			to := from + 1 + r.IntN(pages-from)
			m := Mapping{Start: uint64(from) << 12, End: uint64(to) << 12,
				Offset: uint64(r.IntN(50)) << 12, Exec: true, Inode: uint64(n + 1),
				Path: fmt.Sprint("/", n)}
			p.insert(m)
			i := find(p.maps, m.Start)
			p.keys[i] = fileKey{ino: m.Inode}
			for page := from; page < to; page++ {
				want[page] = fmt.Sprint(m.Path, " ", m.Offset+uint64(page-from)<<12)
			}
		}
		for page := range pages {
			got := ""
			if i := find(p.maps, uint64(page)<<12+7); i >= 0 {
				m := &p.maps[i]
				got = fmt.Sprint(m.Path, " ", m.Offset+uint64(page)<<12-m.Start)
				if p.keys[i].ino != m.Inode {
					t.Fatalf("seed %d: page %d has the key of file %d", seed, page, p.keys[i].ino)
				}
			}
			if got != want[page] {
				t.Fatalf("seed %d: page %d has %q, want %q", seed, page, got, want[page])
			}
		}
		for i := range p.maps[1:] {
			if p.maps[i].End > p.maps[i+1].Start || p.maps[i].Start >= p.maps[i].End {
				t.Fatalf("seed %d: %v", seed, p.maps)
			}
		}
	}
}

// What a process had mapped before another program took its place has names still; a child has what
// its parent had.
func TestFollow(t *testing.T) {
	const pid, child = 1 << 28, 1<<28 + 1 // no process has such a number
	ps := NewProcesses(kernel.Root{})
	mapped := func(pid int, start uint64, path string) bpf.MapEvent {
		return bpf.MapEvent{Kind: bpf.Mapped, PID: pid, Start: start, Length: 0x1000, Inode: 5,
			Path: path}
	}
	changed, ended := ps.Follow([]bpf.MapEvent{
		mapped(pid, 0x10000, "/bin/old"), mapped(pid, 0x70000, "/lib/shared.so (deleted)"),
		{Kind: bpf.Forked, PID: child, Parent: pid},
		{Kind: bpf.Executed, PID: pid}, mapped(pid, 0x10000, "/bin/new"),
		mapped(child, 0x10000, "/lib/over.so"),
		{Kind: bpf.Mapped, PID: child, Start: 0x50000, Length: 0x1000, Path: "//anon"},
		{Kind: bpf.Ended, PID: pid},
	})
	if fmt.Sprint(changed, ended) != fmt.Sprint([]int{child}, []int{pid}) {
		t.Errorf("changed are %v and ended %v", changed, ended)
	}
	for _, tt := range []struct {
		pid  int
		addr uint64
		want string
	}{
		{pid, 0x10010, "new"}, {pid, 0x70010, "shared.so"}, {child, 0x10010, "over.so"},
		{child, 0x70010, "shared.so"}, {child, 0x50010, ""}, {pid, 0x90000, ""},
	} {
		if got := ps.Place(tt.pid, tt.addr); got.Module != tt.want {
			t.Errorf("%x of %d is in %q, want %q", tt.addr, tt.pid, got.Module, tt.want)
		}
	}
}
