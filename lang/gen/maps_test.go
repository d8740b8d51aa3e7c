package gen

import (
	"testing"

	"culprit/lang/check"
	"culprit/lang/ir/irtest"

	"github.com/cilium/ebpf"
)

// TestLimitsShrink checks that Shrink reduces limits, but never below a useful size.
func TestLimitsShrink(t *testing.T) {
	l := Limits{
		Ring:    4 << 20,
		AggKeys: 1 << 16,
		Dynamic: 100,
		Stacks:  10,
		Code:    1 << 12,
		Rows:    1 << 17,
		Nesting: 4,
		Shrink:  16,
	}
	l.shrink()
	want := Limits{
		Ring:    256 << 10,
		AggKeys: 1 << 12,
		Dynamic: leastEntries,
		Stacks:  10,
		Code:    256,
		Rows:    1 << 13,
		Nesting: 4,
		Shrink:  16,
	}
	if l != want {
		t.Errorf("%+v, want %+v", l, want)
	}
}

// TestSingleTable checks that an array with one element takes no memory for others.
func TestSingleTable(t *testing.T) {
	p, err := irtest.Compile("BEGIN { x[0] = 1; y[0] = 1; }", check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.Tables[1].Var.Name = "$y"
	o, err := Maps(p, Kernel{}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{"table0": 1 << 16, "table1": 2} {
		if got := o.Maps[name].MaxEntries; got != want {
			t.Errorf("%s has %d entries, want %d", name, got, want)
		}
	}
}

// TestMapBytes compares the estimate with the kernel's own figure.
func TestMapBytes(t *testing.T) {
	for _, tt := range []struct {
		name string
		spec ebpf.MapSpec
	}{
		{"array", ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 10000}},
		{"per CPU", ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 4096, MaxEntries: 8}},
		{"hash", ebpf.MapSpec{Type: ebpf.Hash, KeySize: 512, ValueSize: 8, MaxEntries: 1 << 12}},
		{"ring", ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 20}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &running{t: t, maps: map[string]*ebpf.Map{}}
			needRoot(t)
			r.make(map[string]*ebpf.MapSpec{"m": &tt.spec})
			info, err := r.maps["m"].Info()
			if err != nil {
				t.Fatal(err)
			}
			kernels, ok := info.Memlock()
			got := mapBytes(&tt.spec, ebpf.MustPossibleCPU())
			each := uint64(tt.spec.KeySize+tt.spec.ValueSize+7) &^ 7
			if rough := (uint64(tt.spec.MaxEntries)*each + 4095) &^ 4095; kernels == rough {
				return // Linux 5.11 to 6.3 report this instead of the size
			}
			if !ok || got < kernels*3/4 || got > kernels*5/4+8192 {
				t.Errorf("%d bytes, the kernel says %d", got, kernels)
			}
		})
	}
}
