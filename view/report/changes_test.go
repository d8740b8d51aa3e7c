package report

import (
	"strings"
	"testing"

	"culprit/changes"
)

func TestChanges(t *testing.T) {
	r := &changes.Report{Compared: 7, Changes: []changes.Change{{
		Statistic: "net.device.bytes", Query: `net.device.bytes where device = "eth0"`, Unit: "B/s",
		Before: 90e6, After: 11e6, With: []string{"net.device.packets"},
		Explains: []changes.Value{{Field: "device", Value: "eth0", Share: 0.9},
			{Field: "device", Value: "", Share: 0.1}, {Field: "netns", Value: "a", Share: 0.6}},
	}, {Statistic: "cpu.stack.samples", Function: "d_walk", Unit: "sample/s", After: 30}}}
	text := Changes(r, 100, false)
	for _, want := range []string{
		" 1. net.device.bytes 90 MB/s -> 11 MB/s (88 % less)\n" +
			"      net.device.bytes where device = \"eth0\"\n" +
			"      by device eth0 90 %, \"\" 10 %, netns a 60 %\n      also net.device.packets\n",
		" 2. cpu.stack.samples 0 sample/s -> 30 sample/s (from nothing)\n",
		"      in kernel function d_walk\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %s", text, want)
		}
	}
}
