package bpftrace

import "testing"

func TestRegisterName(t *testing.T) {
	for _, tt := range []struct{ arch, name, want string }{
		{"amd64", "ip", "R_RIP"}, {"amd64", "sp", "R_RSP"}, {"amd64", "di", "R_RDI"},
		{"amd64", "r9", "R_R9"}, {"amd64", "flags", "R_RFL"}, {"amd64", "rip", ""},
		{"amd64", "r16", ""}, {"amd64", "", ""},
		{"arm64", "r0", "R_X0"}, {"arm64", "r30", "R_X30"}, {"arm64", "r31", ""},
		{"arm64", "r05", ""}, {"arm64", "sp", "R_SP"}, {"arm64", "pc", "R_PC"}, {"arm64", "di", ""},
	} {
		got, ok := registerName(tt.name, tt.arch)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s %s: %q %v, want %q", tt.arch, tt.name, got, ok, tt.want)
		}
	}
}
