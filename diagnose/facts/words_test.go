package facts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"culprit/diagnose"
	"culprit/measure"
)

// oneAnswer is a reader that has one answer.
type oneAnswer struct{ *measure.Answer }

func (r oneAnswer) Ask(context.Context, measure.Query) (*measure.Answer, error) {
	return r.Answer, nil
}

// programTable returns the CPU time of processes over four seconds, as a rule reads it.
func programTable(t *testing.T, rows ...[3]any) (table *diagnose.Table) {
	t.Helper()
	q, err := measure.ParseQuery("process.cpu by pid,process")
	if err != nil {
		t.Fatal(err)
	}
	a := &measure.Answer{
		Query: q, Elapsed: slices.Repeat([]measure.Span{measure.Second}, 4), Step: measure.Second,
	}
	for _, row := range rows {
		at := measure.Label(len(a.Labels))
		a.Labels = append(a.Labels, row[0].(string), row[1].(string))
		v := row[2].(float64)
		a.Series = append(a.Series, measure.Series{
			Key: []measure.Label{at, at + 1}, Values: []float64{v, 3 * v, v, 3 * v},
		})
	}
	rule := diagnose.Rule{ID: "r", Needs: []string{q.String()}, Check: func(l *diagnose.Look) {
		table = l.Table(q.String())
	}}
	set := diagnose.RuleSet{Rules: []diagnose.Rule{rule}}
	_, err = diagnose.Run(t.Context(), oneAnswer{a}, set, measure.Interval{}, 0)
	if err != nil || table == nil || len(table.Rows) != len(rows) {
		t.Fatalf("the table is %+v, %v", table, err)
	}
	return table
}

// TestPrograms groups processes by name, and leaves out those with less than a hundredth.
func TestPrograms(t *testing.T) {
	table := programTable(
		t,
		[3]any{"11", "cc1", 0.1}, [3]any{"12", "cc1", 0.4}, [3]any{"13", "cc1", 0.004},
		[3]any{"14", "cc1", 0.006}, [3]any{"7", "sshd", 0.3}, [3]any{"8", "idle", 0.0},
		[3]any{"", "lost", 0.05}, [3]any{"21", "b", 0.02}, [3]any{"22", "a", 0.02},
		[3]any{"9", "a\x1bc", 0.01},
	)
	all := Programs(table, table.Rows, nil)
	var got []string
	for _, p := range all {
		got = append(got, p.String())
	}
	want := "cc1 (3 processes, mainly 12), sshd[7], lost, a[22], b[21], a_c[9]"
	if strings.Join(got, ", ") != want {
		t.Errorf("programs %s, want %s", strings.Join(got, ", "), want)
	}
	first := all[0]
	numbers := fmt.Sprintf("%.4g %.4g %.4g", first.Rate, first.First, first.Series[0])
	if numbers != "1.02 0.8 0.51" || first.PID() != 12 || first.Culprit().Name != "cc1" ||
		len(first.Rows) != 4 {
		t.Errorf("the first is %+v", first)
	}
	if lost := all[2]; lost.PID() != 0 || lost.Culprit().PID != 0 {
		t.Errorf("a process without a number is %+v", lost)
	}
	if got := OtherPrograms(all, 2, 3); got != "sshd[7] 30 %, lost 5 %" {
		t.Errorf("the others are %s", got)
	}
	if got := OtherPrograms(all, 2, 1); got != "sshd[7] 30 %" {
		t.Errorf("one other is %s", got)
	}
	for n, want := range []string{"process = cc1", "pid = 7"} {
		got := strings.ReplaceAll(all[n].Query(table), `"`, "")
		if !strings.HasSuffix(got, "where "+want) {
			t.Errorf("the query is %s, want %s", got, want)
		}
	}
	later := Programs(table, table.Rows, []bool{false, true, false, true})
	if fmt.Sprintf("%.4g", later[0].Rate) != "1.53" {
		t.Errorf("in every other second the rate is %v", later[0].Rate)
	}
	for pid, want := range map[int]string{-1: "", 0: "", 1: "1", 77: "77"} {
		if got := PIDWord(pid); got != want {
			t.Errorf("process %d is %q, want %q", pid, got, want)
		}
	}
}

func TestCaveatsOfHiddenWork(t *testing.T) {
	for why, want := range map[string]string{
		"hidepid": "mounted with hidepid: they are", "pid namespace": "that of a pid namespace",
		"unreadable": "may not be read", "": "They may be processes of other containers",
	} {
		f := &diagnose.Finding{Confidence: 0.8}
		HiddenWork{why: why}.AddCaveats(f)
		if len(f.Against) != 1 || !strings.Contains(f.Against[0], want) || f.Confidence != 0.8 {
			t.Errorf("%q: %q, confidence %v", why, f.Against, f.Confidence)
		}
	}
}

// TestCapacity checks what a reported speed means for each kind of device.
func TestCapacity(t *testing.T) {
	for _, tt := range []struct {
		kind, driver string
		bits         float64
		from         string
		set          bool
		want         Capacity
	}{
		{"loopback", "", 1e9, "ethtool", false, Capacity{Why: "loopback has no speed"}},
		{"ethernet", "ixgbe", 0, "ethtool", false, Capacity{Why: "its speed is unknown"}},
		{"ethernet", "ixgbe", measure.NaN, "ethtool", false, Capacity{Why: "its speed is unknown"}},
		{"ethernet", "ixgbe", 1e9, "unknown", false, Capacity{Why: "its speed is unknown"}},
		{"ethernet", "ixgbe", 1e9, "ethtool", false, Capacity{Bits: 1e9, From: FromNegotiation}},
		{"ethernet", "virtio_net", 1e9, "ethtool", false, Capacity{Bits: 1e9, From: FromVirtualCard}},
		{"ethernet", "veth", 1e9, "ethtool", false,
			Capacity{Why: "the speed of a veth is no limit, and it has no shaper"}},
		{"bridge", "", 1e9, "ethtool", false,
			Capacity{Why: "the speed of a bridge is no limit, and it has no shaper"}},
		{"veth", "veth", 1e8, "qdisc", false, Capacity{Bits: 1e8, From: FromShaper}},
		{"tap", "tun", 10e6, "ethtool", false,
			Capacity{Why: "10 Mbit/s is the speed of every tap until it is set"}},
		{"tap", "tun", 10e6, "ethtool", true, Capacity{Bits: 10e6, From: FromSetting}},
		{"tun", "tun", 11e6, "ethtool", false, Capacity{Bits: 11e6, From: FromSetting}},
	} {
		d := &Device{Kind: tt.kind, driver: tt.driver}
		if got := d.capacity(tt.bits, tt.from, tt.set); got != tt.want {
			t.Errorf("%s of %s, %v by %s: %+v, want %+v", tt.kind, tt.driver, tt.bits, tt.from, got,
				tt.want)
		}
	}
}
