package trace

import (
	"encoding/binary"
	"os"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/lang/gen"
	"culprit/lang/ir"
	"culprit/trace/probe"

	"github.com/cilium/ebpf"
)

// Records of one firing are delivered together: none before the youngest may be.
func TestFiringsAreDeliveredWhole(t *testing.T) {
	p := &ir.Program{Records: []ir.Record{{Clause: 0}, {Clause: 1}, {Clause: 2}}}
	for _, c := range []struct {
		name    string
		records [][4]uint32 // CPU, thread, probe, kind
		n, want int
	}{
		{"the end of a firing is too young", [][4]uint32{{0, 7, 1, 0}, {0, 7, 1, 1}}, 1, 0},
		{"all of it but the first of another", [][4]uint32{{0, 7, 1, 0}, {0, 7, 1, 1}, {0, 7, 1, 0}}, 2, 2},
		{"three clauses", [][4]uint32{{0, 7, 1, 2}, {0, 7, 1, 0}, {0, 7, 1, 1}, {0, 7, 1, 2}}, 3, 1},
		{"another CPU's wait with it", [][4]uint32{{0, 7, 1, 0}, {1, 8, 1, 1}, {0, 7, 1, 1}}, 2, 0},
		{"another CPU's are none of it", [][4]uint32{{0, 7, 1, 0}, {1, 8, 1, 1}}, 1, 1},
		{"another probe's are none of it", [][4]uint32{{0, 7, 1, 0}, {0, 7, 2, 1}}, 1, 1},
		{"nothing is too young", [][4]uint32{{0, 7, 1, 0}, {0, 7, 1, 1}}, 2, 2},
		{"a fault is of its clause", [][4]uint32{{0, 7, 1, 0}, {0, 7, 1, ir.FaultRecord}}, 1, 0},
	} {
		var q recordQueue
		for i, r := range c.records {
			raw := make([]byte, 48)
			binary.NativeEndian.PutUint32(raw[8:], r[3])
			binary.NativeEndian.PutUint32(raw[12:], r[2])
			binary.NativeEndian.PutUint32(raw[16:], r[0])
			binary.NativeEndian.PutUint32(raw[20:], r[1])
			binary.NativeEndian.PutUint32(raw[24:], 1) // a fault's clause
			q.pending = append(q.pending, record{uint64(i), r[0], raw})
		}
		if n := q.wholeFirings(c.n, p); n != c.want {
			t.Errorf("%s: %d of %d, want %d", c.name, n, c.n, c.want)
		}
	}
}

// Programs that were attached to perf's records are soon unloaded, although Close does not wait.
func TestRecordsLeaveNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs: root")
	}
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	if !env.HasPerfRecords() {
		t.Skip("needs: kernel feature trace events of raw_syscalls")
	}
	c, err := Compile(
		Script{Text: `syscall::getpgid:entry { @[stack()] = count(); }`}, env, gen.Limits{},
	)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(c, env)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.programs.maps.Programs[programName(0)].Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	s.Close()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			return
		}
		p.Close() //nolint:errcheck // only to see that it exists
		if time.Now().After(deadline) {
			t.Fatal("its program is still in the kernel")
		}
	}
}
