package bpf

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"culprit/kernel"
	"culprit/measure"

	"github.com/cilium/ebpf/btf"
)

// The memory of the calling thread's task_struct agrees with /proc, a long read with two short
// ones, and an unmapped address returns ErrNoMemory.
func TestMemory(t *testing.T) {
	m, err := NewMemory()
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
	spec, err := NewTypes(kernel.Root{}).Kernel()
	if err != nil {
		t.Fatal(err)
	}
	var task *btf.Struct
	if err := spec.TypeByName("task_struct", &task); err != nil {
		t.Fatal(err)
	}
	offset := func(name string) uint64 {
		for _, member := range task.Members {
			if member.Name == name {
				return uint64(member.Offset.Bytes())
			}
		}
		t.Fatalf("task_struct has no member %s", name)
		return 0
	}
	at, err := m.Task()
	if err != nil {
		t.Fatal(err)
	}
	tgid := make([]byte, 4)
	if err := m.Read(at+offset("tgid"), tgid); err != nil {
		t.Fatal(err)
	}
	if got := int(tgid[0]) | int(tgid[1])<<8 | int(tgid[2])<<16; got != os.Getpid() {
		t.Errorf("process %d reads that it is %d", os.Getpid(), got)
	}
	n, err := NewNamer()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	text, err := n.Address("vfs_read")
	if err != nil || text == 0 {
		t.Fatalf("vfs_read is at %#x: %v", text, err)
	}
	whole, halves := make([]byte, 3*memoryPiece), make([]byte, 3*memoryPiece)
	for _, err := range []error{m.Read(text, whole), m.Read(text, halves[:memoryPiece+7]),
		m.Read(text+memoryPiece+7, halves[memoryPiece+7:])} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(whole, halves) {
		t.Error("a piece and its halves are not the same")
	}
	for _, nowhere := range []uint64{8, 0xdead << 48} {
		if _, err := m.Word(nowhere); !errors.Is(err, ErrNoMemory) {
			t.Errorf("at %#x there is something, or another mistake: %v", nowhere, err)
		}
	}
}
