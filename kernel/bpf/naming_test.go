package bpf

import (
	"errors"
	"testing"

	"culprit/measure"
)

// An address and its name resolve to each other; unknown ones do not resolve.
func TestNamer(t *testing.T) {
	n, err := NewNamer()
	if errors.Is(err, measure.ErrDenied) {
		t.Skip("needs: root")
	}
	if errors.Is(err, measure.ErrUnsupported) {
		t.Skip("needs: kernel feature bpf_kallsyms_lookup_name (5.16)")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	var addrs []uint64
	names := []string{"vfs_read", "schedule", "do_exit", "kmem_cache_alloc_noprof",
		"no_such_function"}
	for range 10 { // more than are asked for at once
		for _, name := range names {
			a, err := n.Address(name)
			if err != nil {
				t.Fatal(err)
			}
			if a == 0 && name == "vfs_read" || a != 0 && name == "no_such_function" {
				t.Fatalf("%s is at %#x", name, a)
			}
			if a != 0 {
				addrs = append(addrs, a, a+5)
			}
		}
	}
	addrs = append(addrs, 0, 0x1234)
	got, err := n.Names(addrs)
	if err != nil || len(got) != len(addrs) {
		t.Fatalf("%d answers to %d questions: %v", len(got), len(addrs), err)
	}
	for i, a := range addrs {
		g := got[i]
		if a < 1<<32 {
			if g != (Named{Nothing: true}) {
				t.Errorf("%#x is %+v", a, g)
			}
			continue
		}
		if back, err := n.Address(g.Name); err != nil || back != a-g.Offset ||
			g.Offset != uint64(i%2)*5 || g.Size <= g.Offset || g.Module != "" {
			t.Errorf("%#x is %+v, and that is at %#x: %v", a, g, back, err)
		}
	}
}

func TestParseNamed(t *testing.T) {
	for text, want := range map[string]Named{
		"vfs_read+0x1f/0x60\x00.":        {Name: "vfs_read", Offset: 0x1f, Size: 0x60},
		"ext4_read+0x0/0x10 [ext4]\x00x": {Name: "ext4_read", Module: "ext4", Size: 0x10},
		"0xffffffffc0250000\x00.":        {Nothing: true},
		"cut_off+0x1/0x2":                {},
		"cut_off+0x1/0x2\x00":            {},
		"+0x1/0x2\x00.":                  {},
		"x+0x1\x00.":                     {},
		"x+0xg/0x1\x00.":                 {},
		"":                               {},
	} {
		if got := parseNamed([]byte(text)); got != want {
			t.Errorf("%q is %+v, want %+v", text, got, want)
		}
	}
}
