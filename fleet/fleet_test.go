package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

// ten returns ten hosts that report; change sets the values of one by the ID of the quantity.
func ten(change map[string]float64) *Overview {
	o := &Overview{}
	for i := range 10 {
		h := Host{Name: fmt.Sprintf("h%d", i), Reports: true}
		for k, q := range Quantities() {
			v := map[string]float64{"cpu": 0.3, "memory": 0.4, "rx": 7e6, "tx": 11e6}[q.ID]
			v *= 1 + float64((i*7+k)%5)/100
			if c, ok := change[q.ID]; ok && i == 4 {
				v = c
			}
			h.Values = append(h.Values, v)
		}
		o.Hosts = append(o.Hosts, h)
	}
	return o
}

func TestOutliers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change map[string]float64
		want   string
	}{
		{"none", nil, ""},
		{"a slow client", map[string]float64{"tx": 1.2e6}, "h4: its busiest interface sends 1.2 MB/s, 89 % less than the median of the 9 others, 11.2 MB/s"},
		{"just below a factor of two", map[string]float64{"tx": 5.7e6}, ""},
		{"just above a factor of two", map[string]float64{"tx": 5.5e6}, "h4: its busiest interface sends 5.5 MB/s, 51 % less than the median of the 9 others, 11.2 MB/s"},
		{"less than matters", map[string]float64{"disk": 0.09}, ""},
		{"as much as matters", map[string]float64{"disk": 0.11}, "h4: utilization of its busiest disk 11 %, far from the median of the 9 others, 0 %"},
		{"three quantities", map[string]float64{"disk": 0.5, "tx": 1e6, "retransmits": 4000},
			"h4: TCP segments sent again 4000/s, far from the median of the 9 others, 0/s\nh4: its busiest interface sends 1 MB/s, 91 % less than the median of the 9 others, 11.2 MB/s"},
		{"unknown", map[string]float64{"tx": measure.NaN}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := ten(tt.change)
			var lines []string
			for _, n := range o.Outliers() {
				lines = append(lines, o.Hosts[n.Host].Name+": "+o.Describe(n))
			}
			if got := strings.Join(lines, "\n"); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestSilentHostsDiffer(t *testing.T) {
	o := ten(map[string]float64{"tx": 1e6})
	o.Hosts[4].Reports = false
	if got := o.Outliers(); len(got) > 0 {
		t.Errorf("a host that does not report differs: %+v", got)
	}
	if o.Reporting() != 9 {
		t.Errorf("%d report", o.Reporting())
	}
}

func TestFewHosts(t *testing.T) {
	o := ten(map[string]float64{"tx": 1e6})
	o.Hosts = o.Hosts[2:5]
	if got := o.Outliers(); len(got) > 0 {
		t.Errorf("three hosts differ: %+v", got)
	}
}

func TestOrder(t *testing.T) {
	o := ten(map[string]float64{"tx": 1e6})
	o.Hosts[7].Findings = []Finding{
		{Rule: "a", Severity: "low", Confidence: 0.9}, {Rule: "b", Severity: "medium"},
	}
	o.Hosts[9].Findings = []Finding{{Rule: "c", Severity: "high"}}
	o.Hosts[2].Reports = false
	o.SortFindings()
	if got := o.Hosts[7].Findings[0].Rule; got != "b" {
		t.Errorf("the first finding is %s", got)
	}
	var names []string
	for _, i := range o.Order(o.Outliers()) {
		names = append(names, o.Hosts[i].Name)
	}
	want := []string{"h9", "h7", "h4", "h2", "h0", "h1", "h3", "h5", "h6", "h8"}
	if !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}
