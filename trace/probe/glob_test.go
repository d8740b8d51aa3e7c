package probe

import (
	"path"
	"strings"
	"testing"

	"culprit/heapbound"
)

func TestGlob(t *testing.T) {
	tests := []struct {
		glob      string
		yes, nope string // words
	}{
		{"", "a tcp_sendmsg", ""},
		{"*", "a tcp_sendmsg", ""},
		{"tcp_*", "tcp_ tcp_sendmsg", "tcp xtcp_ udp_sendmsg"},
		{"*send*", "send tcp_sendmsg sendto", "sen"},
		{"?cp_*g", "tcp_g tcp_sendmsg", "cp_g tcp_"},
		{"[tu]*p", "tp udp up", "dp t"},
		{"[!tu]?", "ab", "tb ub a"},
		{"[a-cx]1", "a1 b1 c1 x1", "d1 -1"},
		{"[]a]1", "]1 a1", "b1"},
		{"[a-]1", "a1 -1", "b1"},
		{"a**b", "ab axxb", "a"},
		{`a\*b`, "a*b", "axb"},
		{`\[x\]*`, "[x] [x]y", "x"},
		{"*a*a*a*", "aaa xaxaxax", "aa"},
		{"read", "read", "reads rea"},
	}
	for _, test := range tests {
		g := newGlob(test.glob)
		for _, s := range strings.Fields(test.yes) {
			if !g.match(s) {
				t.Errorf("%q should match %q", test.glob, s)
			}
		}
		for _, s := range strings.Fields(test.nope) {
			if g.match(s) {
				t.Errorf("%q should not match %q", test.glob, s)
			}
		}
	}
}

// Where the two languages are the same, the standard library's answer is ours.
func FuzzGlob(f *testing.F) {
	f.Add("tcp_*", "tcp_sendmsg")
	f.Add("*[a-c]?", "xxb1")
	f.Add(strings.Repeat("*a", 30), strings.Repeat("a", 60))
	heapbound.Fuzz(f, func(t *testing.T, pattern, s string) {
		g := newGlob(pattern)
		got := g.match(s)
		for _, c := range []byte(pattern + s) {
			if c == '/' || c == '\\' || c == '[' || c == ']' || c >= 0x80 {
				return
			}
		}
		if want, err := path.Match(pattern, s); err == nil && pattern != "" && got != want {
			t.Errorf("%q %q: %v, path.Match says %v", pattern, s, got, want)
		}
	})
}
