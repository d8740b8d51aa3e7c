package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

func TestDifferences(t *testing.T) {
	item := func(stat string, unit measure.Unit, values ...float64) Item {
		return Item{measure.Query{Stat: measure.StatID(stat)}, unit, values}
	}
	for _, tt := range []struct {
		name  string
		items []Item
		want  string
	}{
		{"the furthest first", []Item{
			item("near", "B/s", 3e6, 9e6, 9.1e6, 9.2e6),
			item("far", "B/s", 90e6, 9e6, 9.1e6, 9.2e6),
		}, "far 90 MB/s 9.1 MB/s 9 MB/s-9.2 MB/s 3 scored; " +
			"near 3 MB/s 9.1 MB/s 9 MB/s-9.2 MB/s 3 scored"},
		{"below a factor of two", []Item{item("a", "B/s", 4.6e6, 9e6, 9.1e6, 9.2e6)}, ""},
		{"less than matters", []Item{item("a", "ratio", 0.049, 0, 0, 0)}, ""},
		{"as much as matters", []Item{item("a", "ratio", 0.051, 0, 0, 0)},
			"a 5 % 0 % 0 %-0 % 3 scored"},
		{"another host differs", []Item{item("a", "B/s", 9e6, 90e6, 9.1e6, 9.2e6)}, ""},
		{"one other", []Item{item("a", "1/s", 210, 100)}, "a 210/s 100/s 100/s-100/s 1"},
		{"one other, below a factor of two", []Item{item("a", "1/s", 190, 100)}, ""},
		{"two others, an unknown one", []Item{item("a", "Hz", 1e9, 3e9, measure.NaN, 3.2e9)},
			"a 1000 MHz 3100 MHz 3000 MHz-3200 MHz 2"},
		{"unknown", []Item{item("a", "Hz", measure.NaN, 3e9, 3e9, 3e9)}, ""},
		{"others unknown", []Item{item("a", "Hz", 3e9, measure.NaN)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, d := range Differences(tt.items) {
				s := fmt.Sprintf("%s %s %s %s-%s %d", d.Query, d.Format(d.Value), d.Format(d.Median),
					d.Format(d.Low), d.Format(d.High), d.Others)
				if d.Score != nil {
					s += " scored"
				}
				got = append(got, s)
			}
			if s := strings.Join(got, "; "); s != tt.want {
				t.Errorf("%s\nwant %s", s, tt.want)
			}
		})
	}
}

func TestCompareFindings(t *testing.T) {
	o := ten(map[string]float64{"tx": 1e6})
	give := func(host int, rules ...string) {
		for _, r := range rules {
			o.Hosts[host].Findings = append(o.Hosts[host].Findings, Finding{Rule: r})
		}
	}
	give(4, "peer-slow", "swap", "swap")
	give(1, "swap", "swap", "irq")
	give(2, "irq", "disk")
	give(7, "irq", "peer-slow") // silent: it is not one of the others
	o.Hosts[7].Reports = false
	c, host, others, err := o.Compare(-1, 4)
	if err != nil {
		t.Fatal(err)
	}
	if host != 4 || c.Host != "h4" || !c.Furthest || c.Others != 8 || c.Compared != 4 {
		t.Errorf("host %d: %+v", host, c)
	}
	if want := []int{0, 2, 5, 8}; !slices.Equal(others, want) {
		t.Errorf("others %v, want %v", others, want)
	}
	got := fmt.Sprint(c.Only, c.Shared, c.Lacks)
	want := fmt.Sprint([]Finding{{Rule: "peer-slow"}}, []RuleHosts{{"swap", 1}},
		[]RuleHosts{{"irq", 2}, {"disk", 1}})
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestCompareErrors(t *testing.T) {
	o := ten(nil)
	c, host, _, err := o.Compare(-1, 4)
	if err != nil || host != -1 || c.Host != "" || c.Others != 10 {
		t.Errorf("none differs: host %d, %+v, %v", host, c, err)
	}
	for i := range o.Hosts {
		o.Hosts[i].Reports = i == 3
	}
	if _, _, _, err := o.Compare(3, 4); err == nil || !strings.Contains(err.Error(), "no other host") {
		t.Errorf("alone: %v", err)
	}
	if _, _, _, err := o.Compare(5, 4); err == nil || !strings.Contains(err.Error(), "h5 is silent") {
		t.Errorf("silent: %v", err)
	}
}
