package check_test

import (
	"errors"
	"strings"
	"testing"

	"culprit/lang/check"

	"github.com/cilium/ebpf/btf"
)

// A symbolsEnv knows the addresses of some symbols.
type symbolsEnv struct {
	*env
	known map[string]uint64
}

func (e *symbolsEnv) Symbol(_, name string) (uint64, btf.Type, error) {
	if a, ok := e.known[name]; ok {
		return a, nil, nil
	}
	return 0, nil, errors.New("no such symbol")
}

// A per-CPU variable is read at the address of the current CPU's, which needs the kernel's table of
// their distances.
func TestPerCPU(t *testing.T) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Skipf("needs: kernel feature BTF: %v", err)
	}
	const text = "BEGIN { trace(`runqueues.cpu); }"
	for _, tt := range []struct {
		name  string
		known map[string]uint64
		says  string // "": it compiles
	}{
		{"known", map[string]uint64{"__per_cpu_offset": 0xffff000000001000}, ""},
		{"no table", nil, "has a value per CPU, whose addresses are unknown: no such symbol"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, ds := compile(text, check.Options{}, &symbolsEnv{&env{spec: spec}, tt.known})
			if tt.says == "" {
				if ds != nil {
					t.Fatal(ds.Marked())
				}
				checkTree(t, p)
			} else if ds == nil || !strings.Contains(ds.Error(), tt.says) {
				t.Errorf("%v, want %q", ds, tt.says)
			}
		})
	}
}
