package load

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"culprit/measure"
)

// quietRun returns a run of one second with 500 Mbit/s upwards in which nothing is saturated.
func quietRun() *Run {
	end := func(sends bool) *End {
		t := Traffic{Way: Up, Sends: sends, Bytes: 62.5e6, Exchanges: 1000, Retransmits: unknown(),
			Segments: unknown(), RTT: unknown(), LeastRTT: unknown(), Cwnd: unknown(),
			Busy: unknown(), Rwnd: unknown(), Sndbuf: unknown()}
		if sends {
			t.Retransmits, t.Segments, t.Busy, t.Rwnd, t.Sndbuf = 1, 40000, 0.99, 0.1, 0.05
		}
		return &End{
			Device:     "eth0",
			Congestion: "cubic",
			Unknown:    map[string]string{},
			Report:     json.RawMessage(`{"findings":[]}`),
			Total: Part{
				To:      measure.Second,
				Traffic: []Traffic{t},
				CPU: Usage{Machine: 0.5, Process: 0.2, Traffic: 0.15, Thread: 0.15, Of: 2,
					Busiest: "1", Share: 0.3, Modes: map[string]Number{}},
			},
			Wire: []Wire{{Direction: "tx", Rate: 5e8, Capacity: 1e9, From: "ethtool", Share: 0.5},
				{Direction: "rx", Rate: 5e8, Capacity: 1e9, From: "ethtool", Share: 0.5}},
		}
	}
	return &Run{N: 1, Here: end(true), There: end(false)}
}

// found returns a diagnosis with one finding.
func found(rule, severity, text string) json.RawMessage {
	return json.RawMessage(
		`{"findings":[{"rule":"` + rule + `","severity":"` + severity + `","claim":"` + text + `","culprit":{"interface":"br0"}}]}`,
	)
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		test              func(*Test)
		sick              func(*Run)
		kind, where, text string
	}{
		"nothing":                     {kind: "none", text: "link eth0 tx 50.0 %, CPUs 25.0 % busy, busiest thread 15.0 %"},
		"nothing to send":             {sick: func(r *Run) { r.Here.Total.Traffic[0].Busy = 0.2 }, kind: "none", text: "no data under way 80.0 %"},
		"the rate":                    {test: func(t *Test) { t.Rate = 5e8 }, kind: "rate", text: "--rate: 100 %"},
		"a rate that was not reached": {test: func(t *Test) { t.Rate = 6e8 }, kind: "none", text: "nothing found"},
		"the sender's link":           {sick: func(r *Run) { r.Here.Wire[0].Share = 0.97 }, kind: "link", where: "here", text: "the link eth0 here: tx carries 97.0 % of 1 Gbit/s, the speed it has negotiated"},
		"the receiver's link":         {sick: func(r *Run) { r.There.Wire[1].Share = 0.97 }, kind: "link", where: "there", text: "rx carries"},
		"the way back of a link":      {sick: func(r *Run) { r.Here.Wire[1].Share = 0.97 }, kind: "none", text: "nothing found"},
		"a speed that is a lie":       {sick: func(r *Run) { r.Here.Wire[0].Share = 3 }, kind: "none", text: "nothing found"},
		"a link below":                {sick: func(r *Run) { r.There.Report = found("link-saturated", "high", "br0 is full.") }, kind: "link", where: "there", text: "br0 is full"},
		"a full link hides a window":  {sick: func(r *Run) { r.Here.Wire[0].Share, r.Here.Total.Traffic[0].Rwnd = 0.97, 0.9 }, kind: "link", where: "here", text: "eth0"},
		"a quota":                     {sick: func(r *Run) { r.There.Report = found("cgroup-throttled", "medium", "it was throttled.") }, kind: "finding", where: "there", text: "throttled"},
		"the sending thread":          {sick: func(r *Run) { r.Here.Total.CPU.Thread = 0.98 }, kind: "cpu", where: "here", text: "one CPU here: the thread that sends uses 98.0 %"},
		"the receiving thread, whose window is full then": {sick: func(r *Run) { r.There.Total.CPU.Thread, r.Here.Total.Traffic[0].Rwnd = 0.96, 0.9 }, kind: "cpu", where: "there", text: "the thread that receives"},
		"all CPUs":                {sick: func(r *Run) { r.There.Total.CPU.Machine = 1.99 }, kind: "cpu", where: "there", text: "99.5 % of 2 are busy, 0.20 of them with this test"},
		"a hypervisor":            {sick: func(r *Run) { r.There.Total.CPU.Modes["steal"] = 1.45 }, kind: "cpu", where: "there", text: "of 2 are busy"},
		"one CPU of interrupts":   {sick: func(r *Run) { r.There.Total.CPU.Share = 0.99 }, kind: "cpu", where: "there", text: "CPU 1 there is busy 99.0 %"},
		"the receiver's window":   {sick: func(r *Run) { r.Here.Total.Traffic[0].Rwnd = 0.72 }, kind: "window", where: "there", text: "72.0 % of the time"},
		"a window in part":        {sick: func(r *Run) { r.Here.Total.Traffic[0].Rwnd = 0.3 }, kind: "none", text: "stopped by the receiver's window 30.0 %, by its own buffer 5.0 %; the rest is the path"},
		"a window while it sent":  {sick: func(r *Run) { r.Here.Total.Traffic[0].Busy, r.Here.Total.Traffic[0].Rwnd = 0.6, 0.3 }, kind: "window", where: "there", text: "30.0 %"},
		"the sender's buffer":     {sick: func(r *Run) { r.Here.Total.Traffic[0].Sndbuf = 0.6 }, kind: "buffer", where: "here", text: "sender's buffer"},
		"losses":                  {sick: func(r *Run) { r.Here.Total.Traffic[0].Retransmits = 400 }, kind: "loss", text: "1.0 % of the segments were sent again, and cubic sends less"},
		"another finding":         {sick: func(r *Run) { r.Here.Report = found("net-drops", "medium", "a ring is too small.") }, kind: "finding", where: "here", text: "a ring is too small"},
		"a remark":                {sick: func(r *Run) { r.Here.Report = found("net-drops", "low", "a ring is small.") }, kind: "none", text: "nothing found"},
		"a finding of other sort": {sick: func(r *Run) { r.Here.Report = found("mac-shared", "high", "x") }, kind: "none", text: "nothing found"},
		"the server unknown":      {sick: func(r *Run) { r.There = nil }, kind: "none", text: "nothing found"},
		"nothing known": {sick: func(r *Run) {
			r.Here.Total.CPU, r.There.Total.CPU = noUsage(), noUsage()
			r.Here.Wire, r.There.Wire = nil, nil
		}, kind: "none", text: "device unknown"},
	} {
		test, r := usual(), quietRun()
		if c.test != nil {
			c.test(&test)
		}
		if c.sick != nil {
			c.sick(r)
		}
		got := r.limits(&test)
		if len(got) != 1 || got[0].Kind != c.kind || got[0].Where != c.where ||
			!strings.Contains(got[0].Text, c.text) {
			t.Errorf("%s: %+v", name, got)
		}
		if r := Summarise(test, "s", "v", []*Run{r}); r.Ways[0].Limit.Kind != c.kind {
			t.Errorf("%s: of one run %+v", name, r.Ways[0].Limit)
		}
	}
}

// TestLimitsOfExchanges checks exchanges: a link counts in both directions, and the pace is in
// transactions.
func TestLimitsOfExchanges(t *testing.T) {
	test := Test{Kind: Exchange, Way: Up, Streams: 1, For: measure.Second, Every: measure.Second,
		Ask: 1, Answer: 1, Pace: 1000}
	if got := quietRun().limits(&test)[0]; got.Kind != "rate" {
		t.Errorf("%+v", got)
	}
	test.Pace = 0
	if got := quietRun().limits(&test)[0]; got.Kind != "none" ||
		!strings.Contains(got.Text, "threads to be woken") {
		t.Errorf("%+v", got)
	}
	r := quietRun()
	r.There.Wire[0].Share = 0.95
	if got := r.limits(&test)[0]; got.Kind != "link" || got.Where != "there" {
		t.Errorf("%+v", got)
	}
	r.There.Wire[0].Share, r.There.Wire[1].Share = 0.85, unknown()
	if got := r.limits(&test)[0]; got.Kind != "none" ||
		!strings.Contains(got.Text, "link eth0 tx 85.0 %") {
		t.Errorf("a link that is nearly full: %+v", got)
	}
	r = quietRun()
	r.There.Total.CPU.Thread = 0.95
	if got := r.limits(&test)[0]; got.Kind != "cpu" ||
		!strings.Contains(got.Text, "that responds") {
		t.Errorf("%+v", got)
	}
}

// TestMostFrequentLimit checks that the limit is that of most runs, with their number.
func TestMostFrequentLimit(t *testing.T) {
	test := usual()
	full := func(n int) *Run {
		r := quietRun()
		r.N, r.Here.Wire[0].Share = n, 0.97
		return r
	}
	s := Summarise(test, "s", "v", []*Run{full(1), quietRun(), full(3)})
	if l := s.Ways[0].Limit; l.Kind != "link" || !strings.HasSuffix(l.Text, "(in 2 of 3 runs)") {
		t.Errorf("%+v", l)
	}
}

// TestSummary checks the summary of runs with numbers computed by hand.
func TestSummary(t *testing.T) {
	test := usual()
	test.For = 4 * measure.Second
	second := quietRun()
	second.There.Total.Traffic[0].Bytes = 67.5e6 // 540 Mbit/s
	second.Here.Machine, second.There.Machine = "one", "one"
	r := Summarise(test, "s", "v", []*Run{quietRun(), second})
	s := r.Ways[0]
	if s.Throughput.Mean != 520e6 || s.Retransmits != 2 || s.Segments != 80000 || !r.Shared ||
		len(r.Notes) != 0 {
		t.Errorf("%+v %+v", s, r)
	}
	// Half a CPU for 62.5 MB/s is 8 s per GB, for 67.5 MB/s 7.407.
	if want := Number((8 + 0.5/0.0675) / 2 * 1e9); r.Here.MachinePerGB < want*0.999999 ||
		r.Here.MachinePerGB > want*1.000001 ||
		r.Here.MachineEach.Known() {
		t.Errorf("%v ns a GB, want %v", r.Here.MachinePerGB, want)
	}
	// Findings are listed once for one machine, and per end for two.
	for n, want := range []string{"here link-saturated 2", "here link-saturated 2, there link-saturated 1"} {
		a, b := quietRun(), quietRun()
		a.Here.Report, b.Here.Report, b.There.Report = found("link-saturated", "high",
			"first."), found(
			"link-saturated", "high", "second.",
		), found("link-saturated", "high", "there.")
		if n == 0 {
			for _, e := range []*End{a.Here, a.There, b.Here, b.There} {
				e.Machine = "one"
			}
		}
		var got []string
		all := Summarise(test, "s", "v", []*Run{a, b}).Found
		for _, f := range all {
			got = append(got, fmt.Sprintf("%s %s %d", f.Where, f.Rule, f.Runs))
		}
		if strings.Join(got, ", ") != want || all[0].Claim != "second." {
			t.Errorf("found %+v, want %s", all, want)
		}
	}
	third := quietRun()
	third.There, third.Early = nil, "it broke"
	r = Summarise(test, "s", "v", []*Run{third})
	if r.Ways[0].Throughput.Mean.Known() || r.There.Machine.Known() ||
		r.There.Unknown["all"] == "" ||
		len(r.Notes) != 2 ||
		r.Here.MachinePerGB.Known() {
		t.Errorf("without the server's word: %+v %+v", r.Ways[0], r.There)
	}
	test.For = 4 * measure.Second
	short := quietRun()
	short.N, short.Early, short.There.Total.Traffic[0].Bytes = 2, "it was stopped", 1
	r = Summarise(test, "s", "v", []*Run{quietRun(), short})
	if s := r.Ways[0].Throughput; s.Runs != 1 || s.Mean != 500e6 || len(r.Notes) != 1 ||
		!strings.Contains(r.Notes[0], "in no mean") ||
		len(r.Runs) != 2 {
		t.Errorf("with a run that was stopped: %+v %v", s, r.Notes)
	}
	test.For, test.Look = measure.Second, true
	if r = Summarise(test, "s", "v", []*Run{quietRun()}); len(r.Notes) != 1 ||
		!strings.Contains(r.Notes[0], "3 s") {
		t.Errorf("a look of a second is no diagnosis: %v", r.Notes)
	}
}

func TestBits(t *testing.T) {
	for v, want := range map[Number]string{
		0: "0 bit/s", 957.1e6: "957.1 Mbit/s", 999.94e6: "999.9 Mbit/s", 999.95e6: "1 Gbit/s",
		999.9999e6: "1 Gbit/s", 1e9: "1 Gbit/s", 5e15: "5000 Tbit/s", unknown(): "- bit/s",
	} {
		if got := Bits(v); got != want {
			t.Errorf("%v: %q, want %q", float64(v), got, want)
		}
	}
}
