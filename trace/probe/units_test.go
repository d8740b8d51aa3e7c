package probe

import (
	"testing"

	"culprit/kernel"
	"culprit/lang/check"
)

// Places whose arguments are read alike share a probe number; others have another.
func TestPlacesShareNumbers(t *testing.T) {
	e := NewEnv(kernel.Root{})
	defer e.Close()
	a, b := []check.Operand{
		{Kind: check.OperandNumber, Number: 1},
	}, []check.Operand{
		{Kind: check.OperandNumber, Number: 2},
	}
	f := &found{
		Listed: Listed{ID: firstUser, Provider: "x1", Name: "y"},
		by:     userProvider,
		site:   check.SiteUprobe,
		foundUser: foundUser{spots: []spot{
			{offset: 1, operands: a},
			{offset: 2, operands: b},
			{offset: 3, operands: a},
		}},
	}
	p := e.intern(f)
	if len(p.Also) != 1 || len(e.targets[p].spots) != 2 || len(e.targets[p.Also[0]].spots) != 1 {
		t.Fatalf("%+v", p)
	}
	if other := p.Also[0]; other.Operands[0].Number != 2 || other.ID != p.ID {
		t.Errorf("%+v", other)
	}
}

// A Go function is found by the name that Go prints in stacks, with [...] for its types.
func TestShortTypes(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"main.f", "main.f"}, {"main.f[go.shape.int]", "main.f[...]"}, {"main.(*pair[go.shape.int,go.shape.struct { main.s string }]).first", "main.(*pair[...]).first"},
		{"main.f[go.shape.[]int].func1", "main.f[...].func1"}, {"main.f[go.shape.map[string][]int]", "main.f[...]"},
	} {
		if got := shortTypes(c.name); got != c.want {
			t.Errorf("%s is %s, want %s", c.name, got, c.want)
		}
	}
}
