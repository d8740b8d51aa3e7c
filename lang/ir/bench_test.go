package ir_test

import (
	"fmt"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/lang/ir/irtest"
	"culprit/lang/syntax"
)

// BenchmarkLower lowers scripts: one that times system calls, one of a thousand clauses, one clause
// of ten thousand statements.
func BenchmarkLower(b *testing.B) {
	short := `syscall::read:entry { self->ts = timestamp; } syscall::read:return /self->ts/ { @[execname] = quantize(timestamp - self->ts); self->ts = 0; }`
	var clauses, statements strings.Builder
	for i := range 1000 {
		fmt.Fprintf(
			&clauses,
			"syscall::f%d:entry /pid > %d && execname == \"x\"/ { a[pid, %d] = timestamp; @n[execname] = count(); printf(\"%%d %%s\", x, execname); x += %d; }\n",
			i, i, i, i,
		)
	}
	for i := range 10000 {
		fmt.Fprintf(&statements, "v%d = x + %d; ", i%2000, i)
	}
	for name, text := range map[string]string{"timing": short, "clauses": "long x; " +
		clauses.String(), "statements": "long x; BEGIN { " + statements.String() + "}"} {
		tree, wrong := syntax.Parse(text, syntax.Mode{})
		if wrong != nil {
			b.Fatal(wrong)
		}
		checked, wrong := check.Check("", text, tree, irtest.Env{}, check.Options{})
		if wrong != nil {
			b.Fatal(wrong)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, wrong := ir.Lower(checked); wrong != nil {
					b.Fatal(wrong)
				}
			}
		})
	}
}
