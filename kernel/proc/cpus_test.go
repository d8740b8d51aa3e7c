package proc

import (
	"errors"
	"slices"
	"testing"

	"culprit/heapbound"
	"culprit/kernel"
)

func TestParseCPUList(t *testing.T) {
	for in, want := range map[string][]int32{
		"0\n": {0}, "0-3,7\n": {0, 1, 2, 3, 7}, "": nil, "\n": nil, "5,9-10": {5, 9, 10},
		"0-7:2/4": {0, 1, 4, 5}, "0-3 ": {0, 1, 2, 3},
	} {
		if got, err := ParseCPUList([]byte(in), nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"x", "0-", "3-1", ",", "1,", "0 1", "0-99999999999999999999",
		"4294967296", "0-7:2", "0-7:2/0", "0-7:5/4", "-1"} {
		if got, err := ParseCPUList([]byte(in), []int32{42}); err == nil ||
			!slices.Equal(got, []int32{42}) {
			t.Errorf("%q: %v, %v; want an error", in, got, err)
		}
	}
	if _, err := ParseCPUList([]byte("0-65535,0-65535"), nil); !errors.Is(err, ErrRange) {
		t.Errorf("more than there can be: %v", err)
	}
}

func TestCPUs(t *testing.T) {
	online, err := OnlineCPUs(kernel.Root{})
	if err != nil || len(online) == 0 {
		t.Fatalf("%v, %v", online, err)
	}
	possible, err := PossibleCPUs(kernel.Root{})
	if err != nil {
		t.Fatal(err)
	}
	if len(online) > len(possible) {
		t.Errorf("%d online, %d possible", len(online), len(possible))
	}
	if cpus, err := OnlineCPUs(kernel.Root{Sys: t.TempDir()}); err == nil {
		t.Errorf("nothing there: %v", cpus)
	}
}

func FuzzCPUs(f *testing.F) {
	f.Add([]byte("0-3,7\n"))
	f.Add([]byte("0-31:1/4"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		if cpus, err := ParseCPUList(b, nil); len(cpus) > MaxCPUs || err != nil && len(cpus) > 0 {
			t.Fatalf("%d, %v", len(cpus), err)
		}
	})
}
