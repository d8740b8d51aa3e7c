package gen

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/measure"

	"github.com/cilium/ebpf"
)

// TestEnable checks that kernels with the needed helper accept the program for is-enabled probes.
func TestEnable(t *testing.T) {
	op := check.Operand{Kind: check.OperandReg, Size: 8, Reg: "rax", Number: 4}
	if runtime.GOARCH == "arm64" {
		op.Reg = "x0"
	}
	code, err := Enable(Kernel{Arch: runtime.GOARCH}, op)
	if err != nil || len(code.Instructions) < 6 {
		t.Fatal(err, code)
	}
	p, err := ebpf.NewProgram(
		&ebpf.ProgramSpec{Type: code.Type, Instructions: code.Instructions, License: "GPL"},
	)
	switch {
	case err == nil:
		p.Close()
	case strings.Contains(err.Error(), "cannot use helper bpf_probe_write_user"):
		t.Skip("needs: kernel feature bpf_probe_write_user")
	case errors.Is(err, ebpf.ErrNotSupported),
		strings.Contains(err.Error(), "operation not permitted"):
		t.Skip("needs: root (BPF)")
	default:
		t.Fatal(err)
	}
}

// TestEnableNowhere checks that an unavailable operand, or one in an unknown register, makes no
// program.
func TestEnableNowhere(t *testing.T) {
	for _, op := range []check.Operand{{}, {Kind: check.OperandReg, Size: 8, Reg: "zz"},
		{Kind: check.OperandReg, Size: 4, Reg: "rax"},
		{Kind: check.OperandMemory, Size: 8, Reg: "rax"}} {
		if _, err := Enable(Kernel{}, op); !errors.Is(err, measure.ErrUnsupported) {
			t.Errorf("%+v: %v", op, err)
		}
	}
}
