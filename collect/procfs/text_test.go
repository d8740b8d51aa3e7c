package procfs

import (
	"testing"
)

func TestCPUList(t *testing.T) {
	for text, want := range map[string]int{
		"0-3,8,10-11\n": 7,
		"0\n":           1,
		"":              0,
		"\n":            0,
		"3-1":           -1,
		"x":             -1,
		"1,,2":          -1,
		"0-99999999999": -1,
		"1-":            -1,
	} {
		got, ok := ParseCPUList(nil, []byte(text))
		if ok != (want >= 0) || ok && len(got) != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
}

func FuzzCPUList(f *testing.F) {
	f.Add([]byte("0-3,8"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, _ := ParseCPUList(nil, b)
		for _, n := range got {
			if n < 0 || n >= 1<<16 {
				t.Fatalf("%q: %d", b, n)
			}
		}
	})
}
