package bpf

import (
	"errors"
	"slices"
	"testing"

	"culprit/heapbound"
	"culprit/kernel"
	"culprit/measure"

	"github.com/cilium/ebpf/btf"
)

// Names that are read without decoding equal the decoded ones, under the same IDs.
func TestTypeNamesAgree(t *testing.T) {
	if _, err := NewTypes(kernel.Root{}).Kernel(); err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	types := NewTypes(kernel.Root{})
	names, err := types.TypeNames("")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := types.Kernel()
	if err != nil {
		t.Fatal(err)
	}
	functions := 0
	names.Each(KindFunc, func(id btf.TypeID, name string) {
		if functions++; functions%97 != 0 {
			return
		}
		got, err := spec.TypeByID(id)
		if f, ok := got.(*btf.Func); err != nil || !ok || f.Name != name {
			t.Errorf("%d %s: %v, %v", id, name, got, err)
		}
	})
	if functions < 10000 {
		t.Errorf("%d functions", functions)
	}
	typedefs := 0
	names.Each(KindTypedef, func(id btf.TypeID, name string) {
		if typedefs++; typedefs%29 != 0 {
			return
		}
		got, err := spec.TypeByID(id)
		if f, ok := got.(*btf.Typedef); err != nil || !ok || f.Name != name {
			t.Errorf("%d %s: %v, %v", id, name, got, err)
		}
	})
	for _, name := range []string{"vfs_read", "tcp_sendmsg", "no_such_function_at_all", "vfs",
		"read", ""} {
		var want []btf.TypeID
		names.Each(KindFunc, func(id btf.TypeID, n string) {
			if n == name {
				want = append(want, id)
			}
		})
		if got := names.Find(KindFunc, name); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if _, err := spec.TypeByID(btf.TypeID(names.next)); !errors.Is(err, btf.ErrNotFound) {
		t.Errorf("%d types here, and one more there: %v", names.next, err)
	}
	if _, err := types.TypeNames("no/such"); !errors.Is(err, measure.ErrUnsupported) {
		t.Error(err)
	}
}

func TestTypeNamesOfAModule(t *testing.T) {
	base, err := ParseTypeNames([]byte(blob(t, "parrot")), nil)
	if err != nil {
		t.Fatal(err)
	}
	// A module's types begin behind the kernel's; here a module whose only type is a typedef of the
	// kernel's int, with a string of its own and another with the kernel's.
	put := func(b []byte, words ...uint32) []byte {
		for _, w := range words {
			b = native.AppendUint32(b, w)
		}
		return b
	}
	at := base.strs + uint32(len(base.text))
	b := native.AppendUint16(nil, 0xeb9f)
	b = append(b, 1, 0)
	b = put(b, 24, 0, 24, 24, 6)
	b = put(b, at+1, 8<<24, 1, 1, 8<<24, 1)
	b = append(b, "\x00dead\x00"...)
	names, err := ParseTypeNames(b, base)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]btf.TypeID{}
	names.Each(KindTypedef, func(id btf.TypeID, name string) { got[name] = id })
	if len(got) != 2 || got["dead"] != 2 || got["parrot"] != 3 {
		t.Error(got)
	}
}

func FuzzTypeNames(f *testing.F) {
	b, err := btf.NewBuilder([]btf.Type{&btf.Int{Name: "parrot", Size: 8},
		&btf.Typedef{Name: "dead", Type: &btf.Void{}}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	raw, err := b.Marshal(nil, btf.KernelMarshalOptions())
	if err != nil {
		f.Fatal(err)
	}
	base, err := ParseTypeNames(raw, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, false)
	f.Add(raw, true)
	heapbound.Fuzz(f, func(t *testing.T, raw []byte, module bool) {
		var on *TypeNames
		if module {
			on = base
		}
		names, err := ParseTypeNames(raw, on)
		if err != nil {
			return
		}
		for kind := range TypeKind(32) {
			names.Each(kind, func(id btf.TypeID, name string) {
				if len(name) < 20 && !slices.Contains(names.Find(kind, name), id) {
					t.Errorf("%q is not found", name)
				}
				if id < btf.TypeID(names.first) || id >= btf.TypeID(names.next) || name == "" {
					t.Error(id, name)
				}
			})
		}
	})
}

func BenchmarkFindFunction(b *testing.B) {
	if _, err := NewTypes(kernel.Root{}).Kernel(); err != nil {
		b.Skip("needs: kernel feature BTF")
	}
	for b.Loop() {
		names, err := NewTypes(kernel.Root{}).TypeNames("")
		if err != nil {
			b.Fatal(err)
		}
		if len(names.Find(KindFunc, "vfs_read")) != 1 {
			b.Fatal("vfs_read was not found")
		}
	}
}

func BenchmarkTypeNames(b *testing.B) {
	if _, err := NewTypes(kernel.Root{}).Kernel(); err != nil {
		b.Skip("needs: kernel feature BTF")
	}
	for b.Loop() {
		names, err := NewTypes(kernel.Root{}).TypeNames("")
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		names.Each(KindFunc, func(btf.TypeID, string) { n++ })
		names.Each(KindTypedef, func(btf.TypeID, string) { n++ })
		b.ReportMetric(float64(n), "names")
	}
}
