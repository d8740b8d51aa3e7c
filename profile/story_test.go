package profile

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// storyText is DTrace output: kernel stacks of a CPU with counts, from a network with a long chain
// of cached routes.
const storyText = "CPU     ID                    FUNCTION:NAME\n 23  80614                      :tick-60s \n\n\n" + `
              dls` + "`" + `i_dls_link_rx+0x2ba
              mac` + "`" + `mac_rx_deliver+0x5d
              mac` + "`" + `mac_rx_srs_process+0x19a
              ixgbe` + "`" + `ixgbe_intr_msix+0x5e
              apix` + "`" + `av_dispatch_autovect+0x95
              unix` + "`" + `switch_sp_and_call+0x13
                7

              unix` + "`" + `mach_cpu_idle+0x6
              unix` + "`" + `cpu_idle+0xb3
              unix` + "`" + `idle+0x114
              unix` + "`" + `thread_start+0x8
            16521

              ip` + "`" + `dce_lookup_and_add_v4+0x69
              ip` + "`" + `ip_set_destination_v4+0x1c3
              ip` + "`" + `tcp_set_destination+0x84
              ip` + "`" + `tcp_input_listener+0x7b2
              ip` + "`" + `ill_input_short_v4+0x5f7
              mac` + "`" + `mac_rx_deliver+0x5d
              mac` + "`" + `mac_rx_srs_process+0x19a
              ixgbe` + "`" + `ixgbe_intr_msix+0x5e
              apix` + "`" + `av_dispatch_autovect+0x95
              unix` + "`" + `switch_sp_and_call+0x13
            39871

              ip` + "`" + `dce_lookup_and_add_v4+0x6d
              ip` + "`" + `ip_set_destination_v4+0x1c3
              ip` + "`" + `tcp_set_destination+0x84
              ip` + "`" + `tcp_connect+0x1e
              sockfs` + "`" + `connect+0x3d
              unix` + "`" + `_sys_sysenter_post_swapgs+0x149
              2113
`

// TestDTraceStoryToSVG checks that the picture of DTrace output shows the shares of each function,
// own and including callees.
func TestDTraceStoryToSVG(t *testing.T) {
	// A simple second reader: blocks separated by blank lines, each with a number as its last line.
	inclusive, whole := map[string]float64{}, 0.0
	for _, block := range strings.Split(storyText, "\n\n") {
		lines := strings.Fields(block)
		if len(lines) == 0 {
			continue
		}
		n, err := strconv.ParseFloat(lines[len(lines)-1], 64)
		if err != nil {
			continue
		}
		whole += n
		seen := map[string]bool{}
		for _, f := range lines[:len(lines)-1] {
			name, _, _ := strings.Cut(f, "+")
			if strings.Contains(f, "`") && !seen[name] {
				seen[name] = true
				inclusive[name] += n
			}
		}
	}
	if whole != 7+16521+39871+2113 || len(inclusive) < 15 {
		t.Fatalf("the test reads %v samples of %v", whole, inclusive)
	}
	tree, err := Read(never, strings.NewReader(storyText), "story", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	// The width shows every frame.
	if err := WriteSVG(&out, tree, Picture{Width: 100000}); err != nil {
		t.Fatal(err)
	}
	var svg struct {
		Groups []struct {
			Title string `xml:"title"`
		} `xml:"g"`
	}
	if err := xml.Unmarshal(out.Bytes(), &svg); err != nil {
		t.Fatal(err)
	}
	title := regexp.MustCompile(`^(\S+)(?: \[[^]]*\])? \(([\d,]+) samples, ([\d.]+)%`)
	got, shares := map[string]float64{}, map[string]float64{}
	for _, g := range svg.Groups {
		m := title.FindStringSubmatch(g.Title)
		if m == nil {
			t.Fatalf("a frame's title is %q", g.Title)
		}
		n, err := strconv.ParseFloat(strings.ReplaceAll(m[2], ",", ""), 64)
		share, err2 := strconv.ParseFloat(m[3], 64)
		if err != nil || err2 != nil {
			t.Fatalf("a frame's title is %q", g.Title)
		}
		got[m[1]] += n
		shares[m[1]] += share
	}
	for name, n := range inclusive {
		if got[name] != n || math.Abs(shares[name]-100*n/whole) > 0.011 {
			t.Errorf("%s has %v samples, %v%%; in what was printed %v, %s%%", name, got[name],
				shares[name], n, fmt.Sprintf("%.2f", 100*n/whole))
		}
	}
}
