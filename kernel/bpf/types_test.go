package bpf

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"testing"

	"culprit/kernel"
	"culprit/measure"

	"github.com/cilium/ebpf/btf"
)

func TestTypesOfThisKernel(t *testing.T) {
	if _, err := NewTypes(kernel.Root{}).Kernel(); err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	types := NewTypes(kernel.Root{})
	spec, err := types.Kernel()
	if err != nil {
		t.Fatal(err)
	}
	var task *btf.Struct
	if err := spec.TypeByName("task_struct", &task); err != nil {
		t.Fatal(err)
	}
	if again, err := types.Module("vmlinux"); err != nil || again != spec {
		t.Errorf("read twice: %v", err)
	}
	if _, err := types.Module("no_such_module"); !errors.Is(err, measure.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := types.Modules(); err != nil {
		t.Error(err)
	}
}

// blob makes raw BTF that holds an int of the given name.
func blob(t *testing.T, name string) string {
	t.Helper()
	b, err := btf.NewBuilder([]btf.Type{&btf.Int{Name: name, Size: 8}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, btf.KernelMarshalOptions())
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestTypesOfACapturedKernel(t *testing.T) {
	r := captured(t, map[string]string{"sys/kernel/btf/vmlinux": blob(t, "parrot")})
	types := NewTypes(r)
	spec, err := types.Kernel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := spec.AnyTypeByName("parrot"); err != nil {
		t.Error(err)
	}
	if _, err := types.Module("nfsd"); !errors.Is(err, measure.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := types.Module("../../x"); !errors.Is(err, measure.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := (NewTypes(captured(t, nil))).Kernel(); !errors.Is(err, measure.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := (NewTypes(captured(t,
		map[string]string{"sys/kernel/btf/vmlinux": string(bytes.Repeat([]byte{7},
			99))}))).Kernel(); !errors.Is(err, measure.ErrUnclear) {
		t.Error(err)
	}
}

func BenchmarkTypes(b *testing.B) {
	if _, err := NewTypes(kernel.Root{}).Kernel(); err != nil {
		b.Skip("needs: kernel feature BTF")
	}
	for b.Loop() {
		if _, err := NewTypes(kernel.Root{}).Kernel(); err != nil {
			b.Fatal(err)
		}
	}
}

// What was read is dropped by Release and read again when it is asked for.
func TestReleaseTypes(t *testing.T) {
	raw, err := os.ReadFile("/sys/kernel/btf/vmlinux")
	if err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	r := captured(t, map[string]string{"sys/kernel/btf/vmlinux": string(raw)})
	for _, root := range []kernel.Root{{}, r} {
		types := NewTypes(root)
		first, err := types.Kernel()
		if err != nil {
			t.Fatal(err)
		}
		again, err := types.Kernel()
		if err != nil || again != first {
			t.Fatalf("types that are there are read again: %v", err)
		}
		other := NewTypes(root)
		its, err := other.Kernel()
		if err != nil || (its == first) != (root == kernel.Root{}) {
			t.Errorf("types of %+v are shared: %v (%v)", root, its == first, err)
		}
		other.Release()
		types.Release()
		runtime.GC()
		anew, err := types.Kernel()
		if err != nil || anew == first {
			t.Errorf("types are kept after Release: %v", err)
		}
		if _, err := first.AnyTypeByName("task_struct"); err != nil {
			t.Errorf("types given before Release: %v", err)
		}
	}
}
