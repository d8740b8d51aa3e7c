package report

import (
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"

	"culprit/diagnose"
	"culprit/load"
	"culprit/measure"
	"culprit/view/viewtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// part returns what one end measured, both ways. Every number is different, and seed changes all.
func part(seed uint64) *load.Part {
	n := load.Number(seed)
	traffic := func(way load.Way, times uint64) load.Traffic {
		m := n * load.Number(times)
		return load.Traffic{
			Way: way, Bytes: 1_000_003 * seed * times, Exchanges: 997 * seed * times,
			Retransmits: 7 * m, Segments: 1009 * m, RTT: 13_001 * m, LeastRTT: 11_003 * m,
			Cwnd: 65_537 * m,
		}
	}
	return &load.Part{
		N: 1, From: 250 * measure.Millisecond, To: 2250 * measure.Millisecond,
		Traffic: []load.Traffic{traffic(load.Up, 2), traffic(load.Down, 3)},
		CPU: load.Usage{
			Machine: 0.11 * n, Process: 0.05 * n, Traffic: 0.03 * n, Thread: 0.02 * n, Of: 8,
		},
	}
}

// latencies returns 1,000 latencies from 17 us on.
func latencies() *load.Latencies {
	l := &load.Latencies{Least: 17_000, Most: 2_345_678, Sum: 123_456_789, First: 7*128 + 13}
	for n := range 500 {
		l.Counts = append(l.Counts, uint64(2+n%3-n%2))
	}
	return l
}

func TestGoldenIntervals(t *testing.T) {
	var b strings.Builder
	for _, tt := range []struct {
		name   string
		test   load.Test
		letter string
		there  bool
	}{
		{"up, Mbit/s", load.Test{Kind: load.Stream, Way: load.Up}, "m", true},
		{"down, kbit/s", load.Test{Kind: load.Stream, Way: load.Down}, "k", true},
		{"both, Gbit/s", load.Test{Kind: load.Stream, Way: load.Both}, "g", true},
		{"both, Tbit/s, without the server", load.Test{Kind: load.Stream, Way: load.Both}, "t", false},
		{"exchanges", load.Test{Kind: load.Exchange, Way: load.Up}, "g", true},
		{"exchanges, without the server", load.Test{Kind: load.Exchange, Way: load.Up}, "g", false},
	} {
		i := &load.Interval{Run: 4, N: 2, Here: part(2)}
		if tt.there {
			i.There = part(5)
			i.Here.Times = latencies()
		}
		fmt.Fprintf(&b, "== %s\n%s", tt.name, viewtest.Layout(LoadInterval(&tt.test, i, tt.letter)))
	}
	viewtest.Golden(t, *update, "intervals", b.String())
}

func TestGoldenRuns(t *testing.T) {
	var b strings.Builder
	for _, way := range []load.Way{load.Up, load.Down, load.Both} {
		test := load.Test{Kind: load.Stream, Way: way}
		run := &load.Run{
			N: 3, Here: &load.End{Total: *part(2)}, There: &load.End{Total: *part(5)},
			Early: "interru\x1bpted",
		}
		fmt.Fprintf(&b, "%s: %s\n", way, LoadRun(&test, run))
	}
	test := load.Test{Kind: load.Exchange, Way: load.Up}
	run := &load.Run{N: 3, Here: &load.End{Total: *part(2)}}
	fmt.Fprintf(&b, "exchanges: %s\n", LoadRun(&test, run))
	run.Here.Total.Times = latencies()
	fmt.Fprintf(&b, "exchanges: %s\n", LoadRun(&test, run))
	viewtest.Golden(t, *update, "runs", b.String())
}

// spread returns the mean and variation of some runs; the variation is unknown of one.
func spread(runs int, mean float64) load.Spread {
	none := load.Number(measure.NaN)
	s := load.Spread{Runs: runs, Mean: load.Number(mean), SD: none, Low: none, High: none}
	if runs > 1 {
		s.SD = load.Number(mean / 50)
	}
	if runs > 2 {
		s.Low, s.High = load.Number(mean*0.97), load.Number(mean*1.04)
	}
	return s
}

func percentile(times load.Number) *load.Percentile {
	return &load.Percentile{
		Count: 12_345, Mean: 31_000 * times, Least: 17_000 * times, P50: 29_000 * times,
		P90: 41_000 * times, P99: 83_000 * times, P999: 191_000 * times, Most: 2_300_000 * times,
	}
}

// costs are what the traffic cost at one end. Every number is different, and n changes all.
func costs(host string, n load.Number, wires int) load.Cost {
	c := load.Cost{
		Host: host, CPUs: 8 * n, Machine: 1.75 * n, Process: 1.25 * n, Traffic: 0.75 * n,
		MachinePerGB: 4.1e8 * n, ProcessPerGB: 2.3e8 * n, MachineEach: 51_000 * n,
		ProcessEach: 37_000 * n, Device: "eth" + fmt.Sprint(n), Unknown: map[string]string{},
	}
	c.Wire = []load.Wire{
		{Direction: "tx", Rate: 931e6 * n, Capacity: 1e9 * n, Share: 0.931},
		{Direction: "rx", Rate: 13e6 * n, Share: load.Number(measure.NaN)},
	}[:wires]
	return c
}

func TestGoldenResults(t *testing.T) {
	up, down, one := spread(3, 941e6), spread(2, 523e6), spread(1, 77e6)
	transactions, latency := spread(3, 21_345.6), spread(4, 46_800)
	both := &load.Result{
		Test: load.Test{Kind: load.Stream, Way: load.Both, Look: true}, Runs: make([]*load.Run, 3),
		Ways: []load.Summary{
			{
				Way: load.Up, Throughput: &up, Retransmits: 17, Segments: 30_011, RTT: 1.25e6,
				Limit: load.Limit{Text: "the link eth0 here"},
			},
			{
				Way: load.Down, Throughput: &down, Retransmits: 19, Segments: 20_011,
				RTT: load.Number(measure.NaN), Limit: load.Limit{Text: "one CPU there"},
			},
		},
		Here: costs("alpha", 1, 2), There: costs("", 3, 1), Shared: true,
		Found: []load.Found{
			{Where: "here", Claim: "eth0 is saturated", Runs: 3},
			{Where: "there", Claim: "CPU 1 is saturated", Runs: 2},
		},
		Notes: []string{"a note", "another\x1b note"},
	}
	both.Here.Unknown = map[string]string{"cpu": "no /proc/stat", "diagnosis": "it is busy"}
	both.There.Unknown = map[string]string{
		"all": "its numbers did not come", "wire": "no route", "cpu": "no /proc/stat",
	}
	exchanges := &load.Result{
		Test: load.Test{Kind: load.Exchange, Way: load.Up}, Runs: make([]*load.Run, 1),
		Ways: []load.Summary{{
			Way: load.Up, Transactions: &transactions, Latency: &latency, Times: percentile(1),
			Late: percentile(2), Missed: 42, Limit: load.Limit{Text: "the latency"},
		}},
		Here: costs("alpha", 1, 0), There: costs("beta", 2, 2),
	}
	exchanges.Here.Unknown = map[string]string{"diagnosis": "not asked"}
	exchanges.There.Machine = load.Number(measure.NaN)
	single := &load.Result{
		Test: load.Test{Kind: load.Stream, Way: load.Up}, Runs: make([]*load.Run, 1),
		Ways: []load.Summary{
			{Way: load.Up, Throughput: &one, Retransmits: load.Number(measure.NaN)},
		},
		Here: costs("alpha", 1, 2), There: costs("beta", 2, 2),
	}
	var b strings.Builder
	for _, width := range []int{39, 80, 111} {
		fmt.Fprintf(&b, "== both ways, %d columns\n%s", width, LoadResult(both, width, width == 80))
	}
	fmt.Fprintf(&b, "== exchanges\n%s", LoadResult(exchanges, 80, false))
	fmt.Fprintf(&b, "== one run\n%s", LoadResult(single, 80, false))
	viewtest.Golden(t, *update, "results", b.String())
}

func TestGoldenComparison(t *testing.T) {
	row := func(
		what string, way load.Way, where, unit string, first, second load.Spread,
	) load.Compared {
		return load.Compared{
			What: what, Way: way, Where: where, Unit: unit, First: first, Second: second,
			Ratio: load.Ratio{
				Ratio: second.Mean / first.Mean, Low: second.Mean / first.Mean * 0.98,
				High: second.Mean / first.Mean * 1.03, Sure: true,
			},
		}
	}
	unsure := row("latency", "", "", "ns", spread(3, 46_800), spread(5, 47_100))
	unsure.Sure = false
	chance := row("throughput", load.Down, "", "bit/s", spread(1, 523e6), spread(1, 497e6))
	chance.Low, chance.High = load.Number(measure.NaN), load.Number(measure.NaN)
	equal := row("latency", "", "", "ns", spread(12, 46_800), spread(12, 46_800))
	c := &load.Comparison{
		Names: [2]string{"old.json", "new\x1b.json"},
		Rows: []load.Compared{
			row("throughput", load.Up, "", "bit/s", spread(3, 941e6), spread(3, 1103e6)),
			chance,
			row("transactions", "", "", "1/s", spread(2, 21_345.6), spread(11, 18_000)),
			unsure,
			equal,
			row("cpu", "", "here", "ns/GB", spread(3, 4.1e8), spread(3, 3.7e8)),
			row("cpu", "", "there", "ns/transaction", spread(1, 51_000), spread(1, 57_000)),
		},
		Times: []load.Times{
			{First: percentile(1), Second: percentile(1.25)},
			{First: percentile(1)},
			{Second: percentile(1)},
			{
				First: &load.Percentile{P50: 1000},
				Second: &load.Percentile{
					Least: 7, P50: 1001, P90: load.Number(measure.NaN), P99: 99_000,
				},
			},
		},
		Notes: []string{"the windows differ"},
	}
	var b strings.Builder
	for _, width := range []int{39, 80, 111} {
		fmt.Fprintf(&b, "== %d columns\n%s", width, LoadComparison(c, width, width == 80))
	}
	viewtest.Golden(t, *update, "comparison", b.String())
}

func TestLoadUnitFor(t *testing.T) {
	for bits, want := range map[float64]string{
		0: "k", 999_999: "k", 1e6: "m", 999_999_999: "m", 1e9: "g", 1e12: "g", math.NaN(): "k",
	} {
		if got := LoadUnitFor(bits); got != want {
			t.Errorf("%g bit/s are shown in %s, want %s", bits, got, want)
		}
	}
}

// TestHostDifferenceEdges checks each quantity just inside and just outside of what is reported:
// twice the median of the others or half of it, and the least difference.
func TestHostDifferenceEdges(t *testing.T) {
	hosts := func(count int, odd Host, other func(n int) Host) []Host {
		all := []Host{odd}
		for n := range count - 1 {
			all = append(all, other(n))
		}
		return all
	}
	answers := func(lines ...string) Host {
		f := viewtest.Frame()
		for _, line := range lines {
			query, row, _ := strings.Cut(line, ": ")
			a := viewtest.Answer(t, query, measure.Delta, false, strings.Split(row, "; ")...)
			f.Answers = append(f.Answers, a)
		}
		return Host{Name: "h", Frame: f}
	}
	pressure := func(resource string, v float64) Host {
		return answers(fmt.Sprintf("pressure.time by resource,scope: %s some %g", resource, v))
	}
	memory := func(used float64) Host {
		return answers(fmt.Sprintf("memory.size by kind: total 1000; available %g", 1000-1000*used))
	}
	disk := func(busy float64) Host {
		return answers(
			"disk.info by device,kind: sda disk 1", fmt.Sprintf("disk.busy by device: sda %g", busy),
		)
	}
	bytes := func(direction string, v float64) Host {
		return answers(
			"net.device.info by netns,device,kind,duplex: '' eth0 ethernet full 1",
			fmt.Sprintf("net.device.bytes by netns,device,direction: '' eth0 %s %g", direction, v),
		)
	}
	cpu := func(v float64) Host {
		return answers(fmt.Sprintf("cpu.time by cpu,mode: 0 usr %g; 0 idle %g", v, 1-v))
	}
	for _, tt := range []struct {
		name      string
		of        func(v float64) Host
		count     int
		others    float64
		near, far float64 // of the first host
		want      string
	}{
		{"twice as much sent", func(v float64) Host { return bytes("tx", v) }, 5, 20e6, 39e6, 41e6,
			"its busiest interface sends 41 MB/s, 2.05 times the median of the 4 others, 20 MB/s"},
		{"half as much received", func(v float64) Host { return bytes("rx", v) }, 5, 20e6, 10.1e6,
			9.9e6, "its busiest interface receives 9.9 MB/s, 50 % less than the median of the 4 " +
				"others, 20 MB/s"},
		{"a megabyte", func(v float64) Host { return bytes("tx", v) }, 5, 0, 0.99e6, 1.01e6,
			"its busiest interface sends 1.01 MB/s, far from the median of the 4 others, 0 MB/s"},
		{"three others", cpu, 4, 0.2, 0.39, 0.41,
			"CPU utilization 41 %, 2.05 times the median of the 3 others, 20 %"},
		{"a tenth of CPU time", cpu, 5, 0.01, 0.1, 0.12,
			"CPU utilization 12 %, 12 times the median of the 4 others, 1 %"},
		{"memory", memory, 5, 0.05, 0.14, 0.16,
			"memory in use 16 %, 3.2 times the median of the 4 others, 5 %"},
		{"disk", disk, 5, 0.05, 0.14, 0.16,
			"utilization of its busiest disk 16 %, 3.2 times the median of the 4 others, 5 %"},
		{"CPU pressure", func(v float64) Host { return pressure("cpu", v) }, 5, 0, 0.099, 0.101,
			"time in which some task waits for a CPU 10 %, far from the median of the 4 others, 0 %"},
		{"memory pressure", func(v float64) Host { return pressure("memory", v) }, 5, 0, 0.049, 0.051,
			"time in which some task waits for memory 5 %, far from the median of the 4 others, 0 %"},
		{"I/O pressure", func(v float64) Host { return pressure("io", v) }, 5, 0, 0.099, 0.101,
			"time in which some task waits for I/O 10 %, far from the median of the 4 others, 0 %"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			other := func(int) Host { return tt.of(tt.others) }
			viewtest.Expect(t, notables(hosts(tt.count, tt.of(tt.near), other)), "")
			viewtest.Expect(
				t, notables(hosts(tt.count, tt.of(tt.far), other)), "h "+tt.want+"\n",
			)
			viewtest.Expect(t, notables(hosts(3, tt.of(tt.far), other)), "")
		})
	}
}

func TestThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0.01234: "0.0123", 11.72: "11.7", 99.94: "99.9", 100: "100", 1234.4: "1234",
	} {
		if got := threeDigits(v); got != want {
			t.Errorf("%g is %s, want %s", v, got, want)
		}
	}
}

// TestGoldenHosts is a table of hosts with findings, differences, clocks and failures.
func TestGoldenHosts(t *testing.T) {
	var all []Host
	for n := range 6 {
		h := hostOf(t, fmt.Sprintf("h%d", n), 52e6, 0.3)
		switch n {
		case 0:
			h = hostOf(t, "h0", 11.7e6, 0.99)
			h.Diagnosed = 1767323045e9
			h.Findings = []diagnose.Finding{{Severity: diagnose.Medium, Claim: "eth0 drops"}}
		case 1:
			h.ClockAhead = clockAhead
			h.Findings = []diagnose.Finding{
				{Severity: diagnose.High, Claim: "eth0 is saturated"}, {}, {},
			}
		case 2:
			h.ClockAhead = clockAhead - 1
		case 3:
			h.ClockAhead = -clockBehind
			h.Name = ""
		case 4:
			h.ClockAhead = 1 - clockBehind
			h.Address = "not a URL"
			h.Name = ""
		case 5:
			h.Frame, h.Failure = nil, "connection refused"
		}
		all = append(all, h)
	}
	got := viewtest.Layout(Hosts(all, 60))
	clock := all[0].Diagnosed.AsTime().Local().Format("15:04:05")
	viewtest.Golden(t, *update, "hosts", strings.ReplaceAll(got, clock, "hh:mm:ss"))
}

func TestGoldenDiagnosis(t *testing.T) {
	tables := make([]string, 9)
	for n := range tables {
		tables[n] = fmt.Sprintf("table%d", n)
	}
	finding := diagnose.Finding{
		Severity: diagnose.Medium, Confidence: 0.5, Explains: diagnose.Number(measure.NaN),
		Claim: "the disk sda is saturated", Evidence: []diagnose.Evidence{{Text: "99 % busy"}},
		Symptoms: []diagnose.Symptom{{Claim: "slow reads"}, {Claim: "slow writes"}},
		Against:  []string{"a short look", "one disk of two"},
		Fix:      &diagnose.Fix{Command: "ionice", Risk: "none"},
	}
	high, low := finding, finding
	high.Severity, low.Severity = diagnose.High, diagnose.Low
	high.Evidence = []diagnose.Evidence{{Text: "99 % busy", Statistic: "disk.busy by device"}}
	var b strings.Builder
	for _, tt := range []struct {
		name   string
		report diagnose.Report
		width  int
		colour bool
	}{
		{"one thing", diagnose.Report{Checked: []string{"cpu"}, Captured: tables[:8]}, 80, false},
		{"nine tables", diagnose.Report{Captured: tables}, 80, false},
		{"in doubt", diagnose.Report{
			Checked: []string{"cpu", "disk"}, Captured: tables[:1],
			Doubtful: []diagnose.Doubt{{Resource: "memory", Because: "half of it is unknown"}},
		}, 39, false},
		{"findings", diagnose.Report{
			Findings: []diagnose.Finding{high, finding, low}, Checked: []string{"disk"},
		}, 111, true},
		{"without queries", diagnose.Report{
			Findings: []diagnose.Finding{finding},
			Fine:     []diagnose.Exoneration{{Resource: "cpu", Because: "it is idle"}},
		}, 80, false},
	} {
		tt.report.Captured = append([]string{"first"}, tt.report.Captured...)
		if tt.name == "one thing" {
			tt.report.Captured = tt.report.Captured[:8]
		}
		fmt.Fprintf(&b, "== %s\n%s", tt.name, Diagnosis(&tt.report, tt.width, tt.colour))
	}
	viewtest.Golden(t, *update, "diagnosis", b.String())
}

// A color code has no width; a character has one column whatever its bytes.
func TestColumns(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "\x1b[31;1mHIGH\x1b[0m": 4, "é€": 2, "\x1b[": 2,
	} {
		if got := columns(text); got != want {
			t.Errorf("%q has %d columns, want %d", text, got, want)
		}
	}
}
