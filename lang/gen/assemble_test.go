package gen

import (
	"culprit/lang/check"
	"culprit/lang/ir"
)

// Assemble is New and Generator.Assemble.
func Assemble(p *ir.Program, k Kernel, probes []*check.Probe, clauses []int) (*Code, error) {
	return New(p, k).Assemble(probes, clauses)
}
