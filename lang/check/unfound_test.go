package check

import (
	"errors"
	"testing"

	"culprit/lang/syntax"

	"github.com/cilium/ebpf/btf"
)

// barren is an Env with only the probe BEGIN.
type barren struct{}

func (barren) BTF() (*btf.Spec, error) { return nil, errors.New("there is no BTF here") }

func (barren) Probes(d *syntax.Probe) ([]*Probe, error) {
	if d.Name.Text == "BEGIN" {
		return []*Probe{{ID: 1, Provider: "dtrace", Name: "BEGIN"}}, nil
	}
	return nil, errors.New("there is no such probe")
}

func (barren) Symbol(module, name string) (uint64, btf.Type, error) {
	return 0, nil, errors.New("there is no such variable")
}

func (barren) Topology() (chips, nodes []int) { return []int{0}, nil }

// TestUnfoundProbe checks a clause whose probes do not exist: each description is reported once,
// without consequences. Other mistakes in the clause, and the same text at a probe without
// arguments, are reported.
func TestUnfoundProbe(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{`no::such:entry { trace(args[0]); }`, []string{"no-probe"}},
		{`no::such:entry /args[1] > 0/ { @[args[0]] = sum(args[2]); }`, []string{"no-probe"}},
		{`no::such:entry { this->x = args[0]; trace(this->x); y = args[1]; } BEGIN { trace(y); }`, []string{"no-probe"}},
		{`no::such:entry { trace(args[0]->member->other); self->s = stringof(args[1]->name); }`, []string{"no-probe"}},
		{`no::such:entry { a[args[0]] = args[1]; } no::other:entry { trace(args[0]); }`, []string{"no-probe", "no-probe"}},
		{`no::such:entry, no::other:entry { trace(args[0]); }`, []string{"no-probe", "no-probe"}},
		{`no::such:entry, BEGIN { trace(args[0]); }`, []string{"no-probe", "args-index"}},
		{`no::such:entry { trace(nothing); }`, []string{"no-probe", "unknown-name"}},
		{`no$target:::entry { trace(args[0]); }`, []string{"unknown-macro"}},
		{`no::such:entry { trace(args[0]); } BEGIN { trace(args[0]); }`, []string{"no-probe", "args-index"}},
	} {
		tree, wrong := syntax.Parse(c.text, syntax.Mode{})
		if len(wrong) > 0 {
			t.Fatal(c.text, wrong)
		}
		_, wrong = Check("", c.text, tree, barren{}, Options{})
		var got []string
		for _, d := range wrong {
			got = append(got, string(d.Code))
		}
		if len(got) != len(c.want) {
			t.Errorf("%s\ngot %v, want %v: %v", c.text, got, c.want, wrong)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s\ngot %v, want %v", c.text, got, c.want)
			}
		}
	}
}
