package command

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"culprit/measure"
	"culprit/trace"

	"golang.org/x/sys/unix"
)

// A costReport is what a script has cost so far.
type costReport struct {
	session  *trace.Session
	programs []trace.Cost
	clauses  []trace.ClauseCost
	over     time.Duration // since the start of the script
}

// readCosts reads the costs of a script that began at a time.
func readCosts(s *trace.Session, began time.Time) (r costReport, err error) {
	r = costReport{session: s, over: time.Since(began)}
	if r.programs, err = s.Costs(); err != nil {
		return r, err
	}
	r.clauses, err = s.ClauseCosts()
	return r, err
}

// share returns the share of one CPU of a run time.
func (r *costReport) share(took time.Duration) float64 {
	return float64(took) / float64(max(1, r.over))
}

// each returns the mean of a run time in ns; "-" without runs.
func each(took time.Duration, runs uint64) string {
	if runs == 0 {
		return "-"
	}
	return strconv.FormatUint(uint64(took)/runs, 10)
}

// programName returns the probes of a program.
func programName(c trace.Cost) string {
	name := c.Unit.Probes[0].String()
	if n := len(c.Unit.Probes); n > 1 {
		name += fmt.Sprintf(" and %d more", n-1)
	}
	return name
}

// clauseWidth is the highest number of bytes of a clause's text in the table.
const clauseWidth = 60

// clauseName returns the start of a clause's text in one line.
func (r *costReport) clauseName(c trace.ClauseCost) string {
	if c.Line == 0 {
		return "(added by culprit)"
	}
	text := r.session.Program().Text[c.Clause.At.From:c.Clause.At.To]
	text = strings.Join(strings.Fields(text[:min(len(text), 4*clauseWidth)]), " ")
	if len(text) > clauseWidth {
		text = strings.ToValidUTF8(text[:clauseWidth], "") + "..."
	}
	return text
}

// write prints two tables: the cost of each program, and that of each clause.
func (r *costReport) write(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "RUNS\tNS/RUN\tCPU%\tMISSED\t  PROBE")
	for _, c := range r.programs {
		fmt.Fprintf(
			w, "%d\t%s\t%.3f\t%d\t  %s\n", c.Runs, each(c.Time, c.Runs), 100*r.share(c.Time),
			c.Missed, measure.Escape(programName(c)),
		)
	}
	w.Flush() //nolint:errcheck // standard error
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nFIRED\tRAN\tNS/FIRED\tCPU%\tLINE\t  CLAUSE")
	for _, c := range r.clauses {
		at := "-"
		if c.Line > 0 {
			at = fmt.Sprintf("%d:%d", c.Line, c.Column)
		}
		fmt.Fprintf(
			w, "%d\t%d\t%s\t%.3f\t%s\t  %s\n", c.Fired, c.Ran, each(c.Time, c.Fired),
			100*r.share(c.Time), at, measure.Escape(r.clauseName(c)),
		)
	}
	w.Flush() //nolint:errcheck // the same
}

// A jsonCost is the cost of a program, a line of the output.
type jsonCost struct {
	Type   string  `json:"type,omitempty"` // cost; "" where a line has the type already
	Probe  string  `json:"probe"`
	Probes int     `json:"probes"`
	Runs   uint64  `json:"runs"`
	Missed uint64  `json:"missed"`
	Time   int64   `json:"cpu_time_ns"`
	Share  float64 `json:"cpu_share"`
}

// A jsonClauseCost is the cost of a clause, a line of the output.
type jsonClauseCost struct {
	Type   string  `json:"type,omitempty"` // clause_cost; "" where a line has the type already
	Clause int     `json:"clause"`         // from 1
	Line   int     `json:"line,omitempty"` // from 1; none: it is not in the text
	Column int     `json:"column,omitempty"`
	Fired  uint64  `json:"fired"`
	Ran    uint64  `json:"ran"`
	Time   int64   `json:"cpu_time_ns"`
	Share  float64 `json:"cpu_share"`
}

// lines writes the costs as JSON, one object per line: {"type": "cost", ...}, or as bpftrace writes
// lines, {"type": "cost", "data": {...}}.
func (r *costReport) lines(out *bufio.Writer, bpftrace bool) error {
	named := func(kind string) string {
		if bpftrace {
			return ""
		}
		return kind
	}
	line := func(kind string, v any) error {
		if bpftrace {
			v = struct {
				Type string `json:"type"`
				Data any    `json:"data"`
			}{kind, v}
		}
		b, err := measure.MarshalJSON(v)
		if err != nil {
			return err
		}
		out.Write(append(b, '\n')) //nolint:errcheck // Flush returns the error
		return nil
	}
	for _, c := range r.programs {
		err := line("cost", jsonCost{
			named("cost"), c.Unit.Probes[0].String(), len(c.Unit.Probes), c.Runs, c.Missed,
			int64(c.Time), r.share(c.Time),
		})
		if err != nil {
			return err
		}
	}
	for _, c := range r.clauses {
		err := line("clause_cost", jsonClauseCost{
			named("clause_cost"), c.Clause.Index + 1, c.Line, c.Column, c.Fired, c.Ran,
			int64(c.Time), r.share(c.Time),
		})
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// onRequest calls print on the goroutine of the session at each SIGUSR1. The caller calls the
// function that ends it.
func onRequest(s *trace.Session, print func()) (end func()) {
	signals, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, unix.SIGUSR1)
	go func() {
		for {
			select {
			case <-signals:
				s.Do(print, over)
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(over)
	}
}

// reportCosts prints the costs of a session at each SIGUSR1 until the returned function is called,
// which prints them a last time. print prints a report.
func reportCosts(s *trace.Session, errs io.Writer, print func(*costReport)) (end func()) {
	began := time.Now()
	report := func() {
		r, err := readCosts(s, began)
		if err != nil {
			fmt.Fprintf(errs, "%v\n", err)
			return
		}
		print(&r)
	}
	stop := onRequest(s, report)
	return func() {
		stop()
		report()
	}
}
