package load

import (
	"fmt"

	"culprit/measure"
)

// Run contains the numbers of one run from both ends.
type Run struct {
	N         int          `json:"run"` // from 1
	Start     measure.Time `json:"start"`
	Early     string       `json:"ended_early,omitempty"` // why it ended early
	Intervals []*Interval  `json:"intervals"`
	Here      *End         `json:"here"`
	There     *End         `json:"there"` // null without the server's numbers
	Limits    []Limit      `json:"limits"`
}

// ends returns the sender and receiver of a direction; nil for an unknown one.
func (r *Run) ends(w Way) (sender, receiver *End) {
	if w == Up {
		return r.Here, r.There
	}
	return r.There, r.Here
}

// Throughput returns the bits per second that arrived at the receiver of a direction, over the time
// that it measured. It is unknown without its numbers.
func (r *Run) Throughput(w Way) Number {
	_, e := r.ends(w)
	if e == nil {
		return unknown()
	}
	return e.Total.throughput(w)
}

// Throughput returns the throughput of an interval, like Run.Throughput.
func (i *Interval) Throughput(w Way) Number {
	p := i.Here
	if w == Up {
		p = i.There
	}
	if i.foreign {
		p = i.Here
	}
	if p == nil {
		return unknown()
	}
	return p.throughput(w)
}

// Sender returns the sender's numbers of a direction; nil when unknown.
func (i *Interval) Sender(w Way) *Traffic {
	p := i.Here
	if w == Down {
		p = i.There
	}
	if p == nil {
		return nil
	}
	return p.way(w)
}

// Receiver returns the receiver's numbers of a direction; nil when unknown.
func (i *Interval) Receiver(w Way) *Traffic {
	p := i.Here
	if w == Up {
		p = i.There
	}
	if p == nil {
		return nil
	}
	return p.way(w)
}

func (p *Part) throughput(w Way) Number {
	t := p.way(w)
	if t == nil || p.To <= p.From {
		return unknown()
	}
	return Number(float64(t.Bytes) * 8 / p.Seconds())
}

// Exchanges returns the transactions per second of a part, at the end that sends requests.
func (p *Part) Exchanges() Number {
	t := p.way(Up)
	if t == nil || p.To <= p.From {
		return unknown()
	}
	return Number(float64(t.Exchanges) / p.Seconds())
}

// work returns the work of a run per second: gigabytes (10^9 B) of both directions, or
// transactions.
func (r *Run) work(t *Test) Number {
	if t.Kind == Exchange {
		return r.Here.Total.Exchanges()
	}
	var sum Number
	for _, w := range t.ways() {
		sum += r.Throughput(w) / 8e9
	}
	return sum
}

// Result contains all runs of one test and their summary.
type Result struct {
	View    string    `json:"view"` // load.result
	Format  int       `json:"format"`
	Version string    `json:"culprit"` // of the program at this end
	Server  string    `json:"server"`
	Test    Test      `json:"test"`
	Runs    []*Run    `json:"runs"`
	Ways    []Summary `json:"summary"` // one per direction; one for exchanges
	Here    Cost      `json:"here"`
	There   Cost      `json:"there"`
	Shared  bool      `json:"one_machine"` // both ends share their CPUs, and each counts all
	Found   []Found   `json:"findings"`
	Notes   []string  `json:"notes"`
}

// Found is a finding of one end's diagnosis during the runs, except those of low severity. The
// complete diagnosis is in the End of each run.
type Found struct {
	Where string `json:"where"`
	Rule  string `json:"rule"`
	Claim string `json:"claim"`
	Runs  int    `json:"runs"` // number of runs that have it
}

// Summary is the summary of all runs for one direction, or for exchanges.
type Summary struct {
	Way          Way         `json:"way"`
	Throughput   *Spread     `json:"bits_per_s,omitempty"`
	Transactions *Spread     `json:"transactions_per_s,omitempty"`
	Latency      *Spread     `json:"mean_latency_ns,omitempty"` // of the means of runs
	Times        *Percentile `json:"latency_ns,omitempty"`      // of all transactions
	// Late is the part of the latency of paced transactions that this program caused.
	Late *Percentile `json:"begun_late_ns,omitempty"`
	// Missed is the number of transactions that were due and did not end.
	Missed      uint64 `json:"not_ended,omitempty"`
	Retransmits Number `json:"retransmits"`
	Segments    Number `json:"segments"`
	RTT         Number `json:"rtt_ns"`
	Limit       Limit  `json:"limit"`
	// UDP are the datagrams of all runs, with the mean of their jitter; nil: the test has none.
	UDP *Datagrams `json:"udp,omitempty"`
}

// Percentile contains the percentiles of latencies, in ns, each off by less than 0.8 %; minimum,
// maximum and mean are exact.
type Percentile struct {
	Count uint64 `json:"count"`
	Mean  Number `json:"mean"`
	Least Number `json:"min"`
	P50   Number `json:"p50"`
	P90   Number `json:"p90"`
	P99   Number `json:"p99"`
	P999  Number `json:"p99_9"`
	Most  Number `json:"max"`
}

// Percentiles returns the percentiles; nil when there are no latencies.
func (l *Latencies) Percentiles() *Percentile {
	if l == nil || l.Count() == 0 {
		return nil
	}
	q := func(q float64) Number { return Number(l.Quantile(q)) }
	return &Percentile{l.Count(), Number(l.Mean()), Number(l.Least), q(0.5), q(0.9), q(0.99),
		q(0.999), Number(l.Most)}
}

// Cost is the cost of the traffic at one end: CPU time of the whole machine, including other
// programs, and of this program. Means of the runs.
type Cost struct {
	Host    string            `json:"host"`
	CPUs    Number            `json:"cpus"`
	Machine Number            `json:"machine_cpus"`
	Process Number            `json:"process_cpus"`
	Traffic Number            `json:"traffic_cpus"`
	Modes   map[string]Number `json:"modes_cpus,omitempty"`
	// CPU time per GB (10^9 received bytes), or per transaction.
	MachinePerGB Number            `json:"machine_ns_per_gb"`
	ProcessPerGB Number            `json:"process_ns_per_gb"`
	MachineEach  Number            `json:"machine_ns_per_transaction"`
	ProcessEach  Number            `json:"process_ns_per_transaction"`
	Device       string            `json:"device,omitempty"`
	Wire         []Wire            `json:"wire"`
	Unknown      map[string]string `json:"unknown"`
}

const resultView, resultFormat = "load.result", 1

// minLook is the shortest time for which the diagnosis can detect a state.
const minLook = 3 * measure.Second

// Summarise returns the result of the runs; at least one is required. Runs that ended early count
// only when all did.
func Summarise(t Test, server, version string, runs []*Run) *Result {
	r := &Result{View: resultView, Format: resultFormat, Version: version, Server: server, Test: t,
		Runs: runs, Notes: []string{}}
	whole := r.counted()
	for _, run := range runs {
		run.Limits = run.limits(&t)
		if run.Here != nil && run.There != nil {
			r.Shared = r.Shared || run.Here.Machine != "" && run.Here.Machine == run.There.Machine
		}
		if run.Early != "" {
			note := fmt.Sprintf("run %d ended early: %s", run.N, run.Early)
			if len(whole) < len(runs) {
				note += "; it is in no mean"
			}
			r.Notes = append(r.Notes, note)
		}
		if run.There == nil {
			r.Notes = append(r.Notes,
				fmt.Sprintf("run %d: what the server measured of the whole did not come", run.N))
		}
	}
	runs = whole
	if t.Look && t.For < minLook {
		r.Notes = append(r.Notes,
			"runs of less than 3 s are too short for a diagnosis: "+
				"the limit follows from the test's own numbers")
	}
	for n, w := range t.ways() {
		s := Summary{Way: w, Retransmits: 0, Segments: 0, RTT: unknown()}
		var throughput, transactions, latency, rtt []Number
		var times, late Latencies
		for _, run := range runs {
			throughput = append(throughput, run.Throughput(w))
			sender, _ := run.ends(w)
			if sender != nil && sender.Total.way(w) != nil {
				tr := sender.Total.way(w)
				s.Retransmits, s.Segments = s.Retransmits+tr.Retransmits, s.Segments+tr.Segments
				rtt = append(rtt, tr.RTT)
			} else {
				s.Retransmits, s.Segments = unknown(), unknown()
			}
			if t.Kind == Exchange {
				transactions = append(transactions, run.Here.Total.Exchanges())
				if l := run.Here.Total.Times; l != nil {
					latency = append(latency, Number(l.Mean()))
					times.merge(*l)
				}
				if l := run.Here.Total.Late; l != nil {
					late.merge(*l)
				}
				s.Missed += run.Here.Total.Missed
			}
		}
		if t.Kind == Exchange {
			all, mean := spreadOf(transactions), spreadOf(latency)
			s.Transactions, s.Latency = &all, &mean
			s.Times, s.Late = times.Percentiles(), late.Percentiles()
		} else {
			all := spreadOf(throughput)
			s.Throughput = &all
		}
		s.RTT = spreadOf(rtt).Mean
		s.UDP = datagramsOf(&t, runs, w)
		s.Limit = mostFrequent(runs, n)
		r.Ways = append(r.Ways, s)
	}
	r.Found = foundIn(runs, r.Shared)
	r.Here, r.There = costOf(&t, runs, func(run *Run) *End { return run.Here }), costOf(&t, runs,
		func(run *Run) *End { return run.There })
	return r
}

// datagramsOf returns the datagrams of all runs in a direction, as the end that counts losses has
// them; nil: the test has none.
func datagramsOf(t *Test, runs []*Run, w Way) *Datagrams {
	if !t.hasPorts() {
		return nil
	}
	all, jitter := &Datagrams{}, []Number{}
	for _, run := range runs {
		_, e := run.ends(w)
		if t.Kind == Exchange {
			e = run.Here
		}
		if e == nil || e.Total.way(w) == nil || e.Total.way(w).UDP == nil {
			all.Lost, all.Reordered = unknown(), unknown()
			continue
		}
		d := e.Total.way(w).UDP
		all.add(d)
		jitter = append(jitter, d.Jitter)
	}
	all.Jitter = spreadOf(jitter).Mean
	return all
}

// costOf returns the mean cost of the runs at one end.
func costOf(t *Test, runs []*Run, end func(*Run) *End) Cost {
	c := Cost{Unknown: map[string]string{}, Wire: []Wire{}, Modes: map[string]Number{}}
	var machine, process, traffic, perMachine, perProcess []Number
	modes := map[string][]Number{}
	wire := map[string][]Wire{}
	for _, run := range runs {
		e := end(run)
		if e == nil {
			c.Unknown["all"] = "its word did not come"
			continue
		}
		u := &e.Total.CPU
		c.Host, c.Device, c.CPUs = printable(e.Host), printable(e.Device), u.Of
		machine, process, traffic = append(machine, u.Machine), append(process,
			u.Process), append(traffic, u.Traffic)
		work := run.work(t)
		if work > 0 {
			perMachine, perProcess = append(perMachine, u.Machine/work*1e9), append(perProcess,
				u.Process/work*1e9)
		}
		for mode, v := range u.Modes {
			modes[mode] = append(modes[mode], v)
		}
		for _, w := range e.Wire {
			wire[w.Direction] = append(wire[w.Direction], w)
		}
		for what, why := range e.Unknown {
			c.Unknown[what] = printable(why)
		}
	}
	mean := func(v []Number) Number { return spreadOf(v).Mean }
	c.Machine, c.Process, c.Traffic = mean(machine), mean(process), mean(traffic)
	c.MachinePerGB, c.ProcessPerGB = unknown(), unknown()
	c.MachineEach, c.ProcessEach = unknown(), unknown()
	if t.Kind == Exchange {
		c.MachineEach, c.ProcessEach = mean(perMachine), mean(perProcess)
	} else {
		c.MachinePerGB, c.ProcessPerGB = mean(perMachine), mean(perProcess)
	}
	for mode, v := range modes {
		c.Modes[printable(mode)] = mean(v)
	}
	if machine == nil {
		c.CPUs = unknown()
	}
	for _, direction := range []string{"tx", "rx"} {
		all := wire[direction]
		if len(all) == 0 {
			continue
		}
		var rates []Number
		for _, w := range all {
			rates = append(rates, w.Rate)
		}
		w := all[len(all)-1]
		w.Rate = mean(rates)
		w.Share = w.Rate / w.Capacity
		c.Wire = append(c.Wire, w)
	}
	return c
}

// maxFound is the highest number of listed findings.
const maxFound = 8

// foundIn lists findings by rule and culprit, in the words of the last run with it. Ends on one
// machine list it once.
func foundIn(runs []*Run, shared bool) []Found {
	all := []Found{}
	places := map[string]int{}
	for _, run := range runs {
		seen := map[string]bool{}
		for _, a := range run.both() {
			for _, f := range a.findings() {
				key := f.Rule + "\x00" + f.Culprit.Name + "\x00" + f.Culprit.Interface
				if !shared {
					key += "\x00" + a.where
				}
				if seen[key] {
					continue
				}
				seen[key] = true
				i, known := places[key]
				if !known {
					if len(all) == maxFound {
						continue
					}
					i = len(all)
					places[key] = i
					all = append(all, Found{Where: a.where, Rule: printable(f.Rule)})
				}
				all[i].Claim, all[i].Runs = printable(f.Claim), all[i].Runs+1
			}
		}
	}
	return all
}
