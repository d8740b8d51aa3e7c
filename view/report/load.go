package report

import (
	"fmt"
	"strings"

	"culprit/load"
	"culprit/measure"
	"culprit/view"
)

// LoadUnits returns the letters for units of throughput, as in netperf and iperf3.
func LoadUnits() []string { return []string{"k", "m", "g", "t"} }

// loadUnit returns the head of the column and the format for a letter of LoadUnits.
func loadUnit(letter string) (head string, show view.Show) {
	switch letter {
	case "k":
		return "kbit/s", view.Kbit
	case "m":
		return "Mbit/s", view.Mbit
	case "t":
		return "Tbit/s", view.Tbit
	}
	return "Gbit/s", view.Gbit
}

// LoadUnitFor returns the letter of the largest unit in which the rate is at least 1.
func LoadUnitFor(bits float64) string {
	switch {
	case bits >= 1e9:
		return "g"
	case bits >= 1e6:
		return "m"
	}
	return "k"
}

// LoadInterval returns the table of one interval of a load test: a row per direction. letter is one
// of LoadUnits.
func LoadInterval(t *load.Test, i *load.Interval, letter string) *view.Table {
	if t.Kind == load.Exchange {
		return exchangeInterval(i)
	}
	head, show := loadUnit(letter)
	out := &view.Table{View: "load.stream", Over: i.Over, Columns: []view.Column{
		{Name: "run", Head: "Run", Width: 3, Help: "number of the run, from 1"},
		{Name: "way", Help: "up: from the client to the server; down"},
		{
			Name:     "end_s",
			Head:     "Time",
			Decimals: 2,
			Width:    6,
			Help:     "end of the interval, seconds since the run's traffic began",
		},
		{
			Name:     "bits_per_s",
			Head:     head,
			Show:     show,
			Decimals: 3,
			Width:    8,
			Help:     "payload bits that the receiver got, per second",
		},
		{Name: "sent_bits_per_s", Help: "bits that the sender passed to its kernel"},
		{Name: "retransmits", Head: "Retr", Width: 6, Help: "segments sent again"},
		{
			Name:  "rtt_ns",
			Head:  "RTT",
			Show:  view.Brief,
			Width: 7,
			Help:  "smoothed round trip of the sender's TCP, mean of the connections",
		},
		{
			Name:  "cwnd_bytes",
			Head:  "Cwnd",
			Show:  view.HumanBytes,
			Width: 6,
			Help:  "congestion windows, all connections together",
		},
	}}
	if t.UDP {
		out.View = "load.udp"
		out.Columns = append(out.Columns[:5], datagramColumns()...)
	}
	if t.Way == load.Both {
		out.Columns[1].Head, out.Columns[1].Width, out.Columns[1].Left = "Way", 4, true
	}
	out.Columns = append(out.Columns, loadCPUColumns()...)
	for _, w := range []load.Way{load.Up, load.Down} {
		if t.Way != w && t.Way != load.Both {
			continue
		}
		from := i.Here
		if w == load.Down {
			from = i.There
		}
		sent, retransmits, rtt, cwnd := measure.NaN, measure.NaN, measure.NaN, measure.NaN
		if s := i.Sender(w); s != nil {
			sent, retransmits, rtt, cwnd = float64(
				s.Bytes,
			)*8/from.Seconds(), float64(
				s.Retransmits,
			), float64(
				s.RTT,
			), float64(
				s.Cwnd,
			)
		}
		cells := []view.Cell{
			view.N(float64(i.Run)),
			view.T(string(w)),
			view.N(i.Here.To.Seconds()),
			view.N(float64(i.Throughput(w))),
			view.N(sent),
		}
		if t.UDP {
			cells = append(cells, datagramCells(i.Receiver(w))...)
		} else {
			cells = append(cells, view.N(retransmits), view.N(rtt), view.N(cwnd))
		}
		out.Rows = append(
			out.Rows, view.Row{Key: string(w), Cells: append(cells, loadCPUCells(i)...)},
		)
	}
	return out
}

// loadCPUColumns returns the columns for the CPUs of both ends.
func loadCPUColumns() []view.Column {
	return []view.Column{
		{
			Name:     "cpu_here",
			Head:     "CPU%here",
			Show:     view.Percent,
			Decimals: 1,
			Width:    8,
			Help:     "busy share of this machine's CPUs, by all programs",
		},
		{
			Name:     "cpu_there",
			Head:     "CPU%there",
			Show:     view.Percent,
			Decimals: 1,
			Width:    9,
			Help:     "busy share of the server's CPUs, by all programs",
		},
		{
			Name:     "traffic_cpus_here",
			Head:     "Thr%here",
			Show:     view.Percent,
			Decimals: 1,
			Width:    8,
			MinWidth: 100,
			Help:     "CPU time of the traffic threads here; 100 % is one CPU",
		},
		{
			Name:     "traffic_cpus_there",
			Head:     "Thr%there",
			Show:     view.Percent,
			Decimals: 1,
			Width:    9,
			MinWidth: 100,
			Help:     "CPU time of the traffic threads at the server",
		},
	}
}

func loadCPUCells(i *load.Interval) []view.Cell {
	share := func(p *load.Part) float64 {
		if p == nil {
			return measure.NaN
		}
		return float64(p.CPU.Machine / p.CPU.Of)
	}
	traffic := func(p *load.Part) float64 {
		if p == nil {
			return measure.NaN
		}
		return float64(p.CPU.Traffic)
	}
	return []view.Cell{
		view.N(share(i.Here)),
		view.N(share(i.There)),
		view.N(traffic(i.Here)),
		view.N(traffic(i.There)),
	}
}

func exchangeInterval(i *load.Interval) *view.Table {
	out := &view.Table{View: "load.rr", Over: i.Over, Columns: []view.Column{
		{Name: "run", Head: "Run", Width: 3, Help: "number of the run, from 1"},
		{
			Name:     "end_s",
			Head:     "Time",
			Decimals: 2,
			Width:    6,
			Help:     "end of the interval, seconds since the run's traffic began",
		},
		{
			Name:     "transactions_per_s",
			Head:     "Trans/s",
			Decimals: 1,
			Width:    9,
			Help:     "transactions that ended",
		},
		{
			Name:  "mean_ns",
			Head:  "Mean",
			Show:  view.Brief,
			Width: 6,
			Help:  "mean time of a transaction",
		},
		{Name: "p50_ns", Head: "p50", Show: view.Brief, Width: 6, Help: "half of them took less"},
		{
			Name:     "p90_ns",
			Head:     "p90",
			Show:     view.Brief,
			Width:    6,
			MinWidth: 100,
			Help:     "nine tenths took less",
		},
		{Name: "p99_ns", Head: "p99", Show: view.Brief, Width: 6, Help: "99 % took less"},
		{
			Name:     "p99_9_ns",
			Head:     "p99.9",
			Show:     view.Brief,
			Width:    6,
			MinWidth: 100,
			Help:     "99.9 % took less",
		},
		{
			Name:  "max_ns",
			Head:  "Max",
			Show:  view.Brief,
			Width: 6,
			Help:  "longest time, within 0.8 %",
		},
		{Name: "retransmits", Head: "Retr", Width: 5, Help: "segments sent again, of this end"},
		{Name: "rtt_ns", Help: "smoothed round trip of this end's TCP, mean of the connections"},
	}}
	out.Columns = append(out.Columns, loadCPUColumns()...)
	p := i.Here.Times.Percentiles()
	if p == nil {
		none := load.Number(measure.NaN)
		p = &load.Percentile{Mean: none, P50: none, P90: none, P99: none, P999: none, Most: none}
	}
	retransmits, rtt := measure.NaN, measure.NaN
	if s := i.Sender(load.Up); s != nil {
		retransmits, rtt = float64(s.Retransmits), float64(s.RTT)
	}
	cells := []view.Cell{
		view.N(float64(i.Run)),
		view.N(i.Here.To.Seconds()),
		view.N(float64(i.Here.Exchanges())),
	}
	for _, v := range []load.Number{p.Mean, p.P50, p.P90, p.P99, p.P999, p.Most} {
		cells = append(cells, view.N(float64(v)))
	}
	out.Rows = []view.Row{
		{
			Key:   "rr",
			Cells: append(append(cells, view.N(retransmits), view.N(rtt)), loadCPUCells(i)...),
		},
	}
	return out
}

// LoadRun returns the line that summarizes a run.
func LoadRun(t *load.Test, r *load.Run) string {
	var parts []string
	if t.Kind == load.Exchange {
		if p := r.Here.Total.Times.Percentiles(); p != nil {
			parts = append(
				parts,
				fmt.Sprintf(
					"%.1f transactions/s, mean %s, p50 %s, p99 %s, max %s",
					float64(r.Here.Total.Exchanges()), span(p.Mean), span(p.P50), span(p.P99),
					span(p.Most),
				),
			)
		} else {
			parts = append(parts, "no transaction ended")
		}
	} else {
		for _, w := range []load.Way{load.Up, load.Down} {
			switch {
			case t.Way == load.Both:
				parts = append(parts, string(w)+" "+load.Bits(r.Throughput(w)))
			case t.Way == w:
				parts = append(parts, load.Bits(r.Throughput(w)))
			}
		}
	}
	line := fmt.Sprintf(
		"run %d: %s in %.2f s", r.N, strings.Join(parts, ", "), r.Here.Total.Seconds(),
	)
	if r.Early != "" {
		line += "; it ended early: " + r.Early
	}
	return view.Clean(line)
}

// span formats nanoseconds; "-" if unknown.
func span(n load.Number) string {
	if !n.Known() {
		return "-"
	}
	return view.FormatNanos(float64(n))
}

// LoadResult formats the result of all runs. Lines are at most width columns wide unless a word is
// longer.
func LoadResult(r *load.Result, width int, colour bool) string {
	d := &diagnosis{width: min(max(width, 40), 110), colour: colour}
	for _, s := range r.Ways {
		lead := ""
		if len(r.Ways) > 1 {
			lead = string(s.Way) + ": "
		}
		if s.Throughput != nil {
			d.paragraph(
				"",
				d.bold(
					lead+load.Bits(s.Throughput.Mean),
				)+describeSpread(s.Throughput, func(n load.Number) string { return load.Bits(n) }),
			)
			if s.Retransmits.Known() {
				line := fmt.Sprintf(
					"%.0f of %.0f segments sent again", float64(s.Retransmits), float64(s.Segments),
				)
				if s.RTT.Known() {
					line += ", round trip " + span(s.RTT) + " while it went"
				}
				d.paragraph("", line)
			}
		}
		if line := lossLine(&r.Test, s.UDP); line != "" {
			d.paragraph("", line)
		}
		if s.Transactions != nil {
			d.paragraph(
				"",
				d.bold(
					fmt.Sprintf("%.1f transactions/s", float64(s.Transactions.Mean)),
				)+describeSpread(
					s.Transactions,
					func(n load.Number) string { return fmt.Sprintf("%.1f", float64(n)) },
				),
			)
			d.paragraph("", d.bold("latency "+span(s.Latency.Mean))+describeSpread(s.Latency, span))
			if p := s.Times; p != nil {
				d.paragraph(
					"",
					fmt.Sprintf(
						"of %d transactions: min %s, p50 %s, p90 %s, p99 %s, p99.9 %s, max %s",
						p.Count, span(p.Least), span(p.P50), span(p.P90), span(p.P99), span(p.P999),
						span(p.Most),
					),
				)
			}
			if p := s.Late; p != nil {
				d.paragraph(
					"",
					fmt.Sprintf(
						"measured from the due time of each, so that a stall counts in all "+
							"that it delayed; this program began p50 %s, p99 %s, max %s late",
						span(p.P50), span(p.P99), span(p.Most),
					),
				)
			}
			if s.Missed > 0 {
				d.paragraph(
					"",
					fmt.Sprintf(
						"%d transactions were due and had not ended at the end: "+
							"the latencies do not include them",
						s.Missed,
					),
				)
			}
		}
	}
	d.line("")
	loadCosts(d, r)
	for _, s := range r.Ways {
		lead := "limited by: "
		if len(r.Ways) > 1 {
			lead = string(s.Way) + " " + lead
		}
		d.paragraph("", d.bold(lead)+view.Clean(s.Limit.Text))
	}
	for _, f := range r.Found {
		lead := fmt.Sprintf("found %s:", f.Where)
		if f.Runs < len(r.Runs) {
			lead = fmt.Sprintf("found %s in %d of %d runs:", f.Where, f.Runs, len(r.Runs))
		}
		d.paragraph("", lead+" "+view.Clean(f.Claim))
	}
	if r.Shared {
		d.paragraph(
			"",
			"Both ends are on one machine: each counts all CPUs and all traffic of that machine.",
		)
	}
	for _, n := range r.Notes {
		d.paragraph("", "note: "+view.Clean(n))
	}
	return strings.TrimRight(d.b.String(), "\n") + "\n"
}

// describeSpread returns the number of runs and how much they differ.
func describeSpread(s *load.Spread, text func(load.Number) string) string {
	switch {
	case s.Runs < 2:
		return " (one run)"
	case !s.Low.Known():
		return fmt.Sprintf(
			" mean of %d runs, standard deviation %s (%.2g %%)", s.Runs, text(s.SD),
			float64(100*s.SD/s.Mean),
		)
	}
	return fmt.Sprintf(
		" mean of %d runs, standard deviation %s (%.2g %%), 95 %% interval %s to %s", s.Runs,
		text(s.SD), float64(100*s.SD/s.Mean), text(s.Low), text(s.High),
	)
}

// loadCosts writes the CPU times of both ends side by side.
func loadCosts(d *diagnosis, r *load.Result) {
	ends := []*load.Cost{&r.Here, &r.There}
	row := func(what string, cell func(c *load.Cost) string) {
		d.line(fmt.Sprintf("%-22s %-26s %s", what, cell(ends[0]), cell(ends[1])))
	}
	number := func(v load.Number, format string, scale float64) string {
		if !v.Known() {
			return "-"
		}
		return fmt.Sprintf(format, float64(v)*scale)
	}
	d.line(
		fmt.Sprintf("%-22s %-26s %s", "", d.bold("here")+strings.Repeat(" ", 22), d.bold("there")),
	)
	row("machine", func(c *load.Cost) string { return orDash(view.Clean(c.Host)) })
	row("CPUs busy", func(c *load.Cost) string {
		return number(c.Machine, "%.2f", 1) + " of " + number(c.CPUs, "%.0f", 1)
	})
	row("by this program", func(c *load.Cost) string { return number(c.Process, "%.2f", 1) })
	if r.Test.Kind == load.Exchange {
		row("CPU per transaction", func(c *load.Cost) string { return span(c.MachineEach) })
		row("by this program", func(c *load.Cost) string { return span(c.ProcessEach) })
	} else {
		row("CPU time per GB", func(c *load.Cost) string { return span(c.MachinePerGB) })
		row("by this program", func(c *load.Cost) string { return span(c.ProcessPerGB) })
	}
	row("interface", func(c *load.Cost) string { return orDash(view.Clean(c.Device)) })
	for n, direction := range []string{"sends", "receives"} {
		row(direction+" on the wire", func(c *load.Cost) string {
			if n >= len(c.Wire) {
				return "-"
			}
			w := c.Wire[n]
			if !w.Share.Known() {
				return load.Bits(w.Rate) + ", share -"
			}
			return fmt.Sprintf("%s, %.1f %%", load.Bits(w.Rate), float64(w.Share)*100)
		})
	}
	d.line("")
	printed := map[string]bool{}
	names := map[string]string{
		"all": "anything", "cpu": "the CPUs", "wire": "the link", "diagnosis": "the diagnosis",
	}
	for n, c := range ends {
		where := []string{"here", "there"}[n]
		for _, what := range []string{"all", "cpu", "wire", "diagnosis"} {
			if why := c.Unknown[what]; why != "" && !printed[what+why] &&
				!(what == "diagnosis" && !r.Test.Look) {
				printed[what+why] = true
				d.paragraph(
					"",
					fmt.Sprintf(
						"not known %s: %s: %s", where, names[what], view.Clean(why),
					),
				)
			}
		}
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
