package trace

import (
	"testing"

	"culprit/kernel"
	"culprit/lang/check"
	"culprit/lang/syntax"
	"culprit/trace/probe"

	"github.com/cilium/ebpf/btf"
)

// A timer fires only on the CPU that the predicates of all its clauses demand, if the predicates
// have no effects.
func TestUnitsOfOneCPU(t *testing.T) {
	for text, want := range map[string]int{
		`profile-997 /arg0 && cpu==1/ { @[stack()] = count(); }`:                                     1,
		`profile-97 /cpu == 0/ { @ = count(); } profile-97 /0 == cpu && pid == 1/ { @b = count(); }`: 0,
		`profile-97 /execname == "x" && x && cpu == 7 && y++/ { @ = count(); }`:                      7,
		`profile-97 /(uint64_t)cpu == 300/ { @ = count(); }`:                                         300,
		`profile-97 /cpu == 0/ { @ = count(); } profile-97 /cpu == 1/ { @b = count(); }`:             -1,
		`profile-97 /cpu == 0/ { @ = count(); } profile-97 { @b = count(); }`:                        -1,
		`profile-97 /cpu != 0/ { @ = count(); }`:                                                     -1,
		`profile-97 /cpu == 0 || arg0/ { @ = count(); }`:                                             -1,
		`profile-97 /y++ && cpu == 0/ { @ = count(); }`:                                              -1,
		`profile-97 /100 / x && cpu == 0/ { @ = count(); }`:                                          -1,
		`profile-97 /(char)cpu == 0/ { @ = count(); }`:                                               -1,
		`profile-97 /cpu == x/ { @ = count(); }`:                                                     -1,
		`profile-97 /!(cpu == 0)/ { @ = count(); }`:                                                  -1,
		`tick-1s /cpu == 0/ { @ = count(); }`:                                                        -1,
		`profile-97 { @ = count(); }`:                                                                -1,
	} {
		text = "int x; int y; " + text
		tree, ds := syntax.Parse(text, syntax.Mode{})
		if len(ds) > 0 {
			t.Fatal(ds)
		}
		e := probe.NewEnv(kernel.Root{})
		p, ds := check.Check("", text, tree, e, check.Options{})
		e.Close()
		if len(ds) > 0 {
			t.Fatalf("%s: %v", text, ds)
		}
		all := units(p, nil)
		if len(all) != 1 || all[0].CPU != want {
			t.Errorf("%s: %d units, of CPU %d, want %d", text, len(all), all[0].CPU, want)
		}
	}
}

// Functions whose results differ in width or sign share no program when a clause reads arg1.
func TestUnitsByResult(t *testing.T) {
	of := func(size uint32, signed btf.IntEncoding) *check.Probe {
		return &check.Probe{Site: check.SiteKretprobe, Learn: func() ([]check.Arg, string) {
			return []check.Arg{
				{C: "long"},
				{Type: &btf.Int{Size: size, Encoding: signed}, From: -1},
			}, ""
		}}
	}
	p := &check.Program{
		Clauses: []*check.Clause{
			{
				Probes: []*check.Probe{
					of(4, btf.Signed),
					of(4, btf.Signed),
					of(4, 0),
					of(1, 0),
					of(8, 0),
					of(8, btf.Signed),
				},
			},
		},
	}
	if n := len(units(p, nil)); n != 1 {
		t.Errorf("%d units without arg1, want 1", n)
	}
	if n := len(units(p, map[int]bool{0: true})); n != 4 {
		t.Errorf("%d units with arg1, want 4: int, unsigned, unsigned char, all else", n)
	}
}

// Probes whose arguments are read in the same way are one unit.
func TestUnitsOfPlaces(t *testing.T) {
	a, b := []check.Operand{
		{Kind: check.OperandNumber, Number: 1},
	}, []check.Operand{
		{Kind: check.OperandNumber, Number: 2},
	}
	p := &check.Probe{ID: 1, Site: check.SiteUprobe, Operands: a}
	p.Also = []*check.Probe{{ID: 1, Site: check.SiteUprobe, Operands: b}}
	other := &check.Probe{ID: 2, Site: check.SiteUprobe, Operands: a}
	got := units(
		&check.Program{Clauses: []*check.Clause{{Index: 0, Probes: []*check.Probe{p, other}}}}, nil,
	)
	if len(got) != 2 || len(got[0].Probes) != 2 || len(got[1].Probes) != 1 {
		t.Errorf("%+v", got)
	}
}
