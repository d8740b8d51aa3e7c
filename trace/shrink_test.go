package trace

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"culprit/kernel/bpf"
	"culprit/kernel/feature"
	"culprit/lang/gen"
	"culprit/trace/tracetest"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Maps shrink until they fit. The error for maps that never fit has both figures. Other errors are
// returned at once.
func TestShrinking(t *testing.T) {
	other := errors.New("another error")
	for _, tt := range []struct {
		name   string
		fits   int // the least Shrink that fits; 0: none does
		fails  error
		shrunk int
		tries  int
	}{
		{"fits at once", 1, nil, 1, 1},
		{"fits with a sixteenth", 16, nil, 16, 3},
		{"fits between steps", 17, nil, 64, 4},
		{"fits with the least", shrinkMost, nil, shrinkMost, 7},
		{"never fits", 0, nil, 0, 7},
		{"fails otherwise", 0, other, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tries := 0
			s, err := shrinking(gen.Limits{}, func(l gen.Limits) (*Session, error) {
				tries++
				if tt.fails != nil {
					return nil, tt.fails
				}
				if tt.fits == 0 || l.Shrink < tt.fits {
					return nil, fmt.Errorf(
						"load the script into the kernel: %w", &bpf.MemoryLimit{Limit: 64 << 10},
					)
				}
				return &Session{programs: programs{shrunk: l.Shrink}}, nil
			}, func() uint64 { return 5 << 20 })
			if tries != tt.tries {
				t.Errorf("%d tries, want %d", tries, tt.tries)
			}
			if tt.shrunk > 0 {
				if err != nil || s.programs.shrunk != tt.shrunk {
					t.Fatalf("shrunk %v, error %v, want %d", s, err, tt.shrunk)
				}
				if said := s.Shrunk(); (said != "") != (tt.shrunk > 1) ||
					tt.shrunk > 1 && !strings.Contains(said, fmt.Sprintf("1/%d ", tt.shrunk)) {
					t.Errorf("said %q", said)
				}
				return
			}
			limit, ok := errors.AsType[*bpf.MemoryLimit](err)
			if ok != (tt.fails == nil) || ok && (limit.Wants != 5<<20 || limit.Limit != 64<<10) ||
				!ok && !errors.Is(err, other) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// An error after loading is returned, and nothing stays in the kernel.
func TestLoadFailsLate(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	e := tracetest.Here(t)
	c, err := Compile(Script{Text: "BEGIN { @[pid] = count(); }"}, e, gen.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	c.helpers = append(c.helpers, &gen.Code{Type: ebpf.RawTracepoint, AttachTo: "no_such_event",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if s, err := Load(c, e); err == nil || s != nil ||
		!strings.Contains(err.Error(), "no_such_event") {
		t.Errorf("a session %v, %v", s, err)
	}
}
