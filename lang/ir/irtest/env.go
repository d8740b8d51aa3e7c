package irtest

import (
	"errors"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/lang/syntax"

	"github.com/cilium/ebpf/btf"
)

// An Env has every probe that is named without patterns, and only the given types.
type Env struct{ Types *btf.Spec }

// BTF returns the types. It returns an error when there are none.
func (e Env) BTF() (*btf.Spec, error) {
	if e.Types == nil {
		return nil, errors.New("no BTF")
	}
	return e.Types, nil
}

// Probes returns the probe of that name. It returns an error for a pattern.
func (e Env) Probes(d *syntax.Probe) ([]*check.Probe, error) {
	ids := map[string]uint32{"BEGIN": 1, "END": 2, "ERROR": 3}
	p := &check.Probe{
		ID:       ids[d.Name.Text],
		Provider: d.Provider.Text,
		Module:   d.Module.Text,
		Function: d.Function.Text,
		Name:     d.Name.Text,
	}
	if p.ID > 0 {
		p.Provider = "dtrace"
	} else {
		p.ID = 10 + uint32(len(d.Function.Text+d.Name.Text))
	}
	return []*check.Probe{p}, nil
}

// Symbol returns an error: there are no variables.
func (e Env) Symbol(module, name string) (uint64, btf.Type, error) {
	return 0, nil, errors.New("no such variable")
}

// Topology returns two chips with two CPUs each, and one node.
func (e Env) Topology() (chips, nodes []int) { return []int{0, 0, 1, 1}, nil }

// Compile returns the verified steps of a text. It returns an error for a mistake in the text, or
// in Verify's words for one in the steps.
func Compile(text string, o check.Options) (*ir.Program, error) {
	tree, wrong := syntax.Parse(text, syntax.Mode{Macros: o.Macro})
	if len(wrong) > 0 {
		return nil, wrong
	}
	checked, wrong := check.Check("", text, tree, Env{}, o)
	if len(wrong) > 0 {
		return nil, wrong
	}
	p, wrong := ir.Lower(checked)
	if len(wrong) > 0 {
		return nil, wrong
	}
	return p, p.Verify()
}
