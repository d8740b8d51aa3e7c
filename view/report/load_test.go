package report

import (
	"encoding/json"
	"strings"
	"testing"

	"culprit/load"
	"culprit/measure"
	"culprit/view"
)

// loadPart is what an end measured, of one way.
func loadPart(n int, sends bool, bytes uint64) *load.Part {
	none := load.Number(measure.NaN)
	t := load.Traffic{
		Way:         load.Up,
		Sends:       sends,
		Bytes:       bytes,
		Retransmits: none,
		Segments:    none,
		RTT:         none,
		LeastRTT:    none,
		Cwnd:        none,
		Busy:        none,
		Rwnd:        none,
		Sndbuf:      none,
	}
	if sends {
		t.Retransmits, t.Segments, t.RTT, t.Cwnd = 3, 1000, 1.25e6, 1<<20
		t.Busy, t.Rwnd, t.Sndbuf = 1, 0, 0
	}
	return &load.Part{
		N:       n,
		From:    measure.Span(n-1) * measure.Second,
		To:      measure.Span(n) * measure.Second,
		Traffic: []load.Traffic{t},
		CPU: load.Usage{
			Machine: 0.5,
			Of:      2,
			Process: 0.25,
			Traffic: 0.2,
			Thread:  0.2,
			Share:   0.3,
		},
	}
}

func loadRuns(rates ...uint64) (load.Test, []*load.Run) {
	test := load.Test{
		Kind:    load.Stream,
		Way:     load.Up,
		Streams: 1,
		For:     measure.Second,
		Every:   measure.Second,
		Size:    131072,
	}
	var runs []*load.Run
	for n, bytes := range rates {
		here, there := loadPart(1, true, bytes+500), loadPart(1, false, bytes)
		i := &load.Interval{Run: n + 1, N: 1, Here: here, There: there}
		runs = append(runs, &load.Run{N: n + 1, Intervals: []*load.Interval{i},
			Here: &load.End{
				Host:   "alpha",
				Total:  *here,
				Device: "eth0",
				Wire: []load.Wire{
					{Direction: "tx", Rate: 999e6, Capacity: 1e9, From: "qdisc", Share: 0.999},
					{
						Direction: "rx",
						Rate:      1e6,
						Capacity:  load.Number(measure.NaN),
						Share:     load.Number(measure.NaN),
					},
				},
			},
			There: &load.End{
				Host:    "be\x1bta",
				Total:   *there,
				Unknown: map[string]string{"wire": "no route"},
			}})
	}
	return test, runs
}

func TestLoadInterval(t *testing.T) {
	test, runs := loadRuns(119.5e6)
	table := LoadInterval(&test, runs[0].Intervals[0], "m")
	var got struct {
		View string
		Rows []map[string]any
	}
	if err := json.Unmarshal(view.AppendJSON(nil, table), &got); err != nil {
		t.Fatal(err)
	}
	row := got.Rows[0]
	for name, want := range map[string]any{
		"run": 1., "way": "up", "end_s": 1., "bits_per_s": 956e6, "sent_bits_per_s": 956004000.,
		"retransmits": 3., "rtt_ns": 1.25e6, "cwnd_bytes": 1048576., "cpu_here": 0.25,
		"traffic_cpus_there": 0.2,
	} {
		if row[name] != want {
			t.Errorf("%s is %v, want %v", name, row[name], want)
		}
	}
	if c := table.Columns[table.Column("bits_per_s")]; c.Head != "Mbit/s" ||
		c.Format(table.Rows[0].Cells[table.Column("bits_per_s")]) != "956.000" {
		t.Errorf("-f m shows %s", c.Format(table.Rows[0].Cells[table.Column("bits_per_s")]))
	}
	// Without the server's report its values are unknown, not 0.
	runs[0].Intervals[0].There = nil
	table = LoadInterval(&test, runs[0].Intervals[0], "g")
	if err := json.Unmarshal(view.AppendJSON(nil, table), &got); err != nil {
		t.Fatal(err)
	}
	if row = got.Rows[0]; row["bits_per_s"] != nil || row["cpu_there"] != nil ||
		row["retransmits"] != 3. {
		t.Errorf("without the server's word: %v", row)
	}
}

func TestLoadResult(t *testing.T) {
	test, runs := loadRuns(119.5e6, 119.6e6, 119.7e6)
	got := LoadResult(load.Summarise(test, "10.0.0.2:7411", "v", runs), 80, false)
	want := `956.8 Mbit/s mean of 3 runs, standard deviation 800 kbit/s (0.084 %), 95 %
interval 954.8 Mbit/s to 958.8 Mbit/s
9 of 3000 segments sent again, round trip 1.25ms while it went

                       here                       there
machine                alpha                      be ta
CPUs busy              0.50 of 2                  0.50 of 2
by this program        0.25                       0.25
CPU time per GB        4.18s                      4.18s
by this program        2.09s                      2.09s
interface              eth0                       -
sends on the wire      999 Mbit/s, 99.9 %         -
receives on the wire   1 Mbit/s, share -          -

not known there: the link: no route
limited by: the link eth0 here: tx carries 99.9 % of 1 Gbit/s, which its shaper
lets through
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(got) {
		if len(strings.TrimRight(line, "\n")) > 80 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
}

func TestLoadComparison(t *testing.T) {
	test, runs := loadRuns(119.5e6, 119.6e6, 119.7e6)
	_, faster := loadRuns(130.5e6, 130.4e6, 130.6e6)
	_, one := loadRuns(130.5e6)
	a := load.Summarise(test, "s", "v", runs)
	for name, c := range map[string]struct {
		b    []*load.Run
		want string
	}{
		"faster": {faster, "throughput up: faster by 9.1 % +- 0.2 %"},
		"itself": {runs, "throughput up: no significant difference in three runs: +0.0 %, 95 % interval -0.2 to"},
		"one":    {one, "throughput up: faster by 9.1 %; one run may be chance"},
	} {
		d, err := load.Compare(
			[2]string{"a.json", "b.json"}, a, load.Summarise(test, "s", "v", c.b),
		)
		if err != nil {
			t.Fatal(err)
		}
		if got := LoadComparison(d, 100, false); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	slower, err := load.Compare(
		[2]string{"a.json", "b.json"}, load.Summarise(test, "s", "v", faster), a,
	)
	if err != nil ||
		!strings.Contains(
			LoadComparison(slower, 100, false), "throughput up: slower by 8.4 % +- 0.",
		) {
		t.Errorf("%v %+v", err, slower)
	}
}
