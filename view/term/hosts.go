package term

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/report"
	"culprit/view/show"
	"culprit/view/term/output"

	"github.com/spf13/cobra"
)

// Hosts is a set of servers.
type Hosts interface {
	// Look asks all servers at once about the last span, by their own clocks. It returns one Host
	// per address, in order, also for servers that did not answer in time.
	Look(ctx context.Context, queries []string, span measure.Span) []report.Host
	// Close closes all connections.
	Close()
}

const (
	// defaultHostSpan is the time range without an interval: that of a diagnosis.
	defaultHostSpan = 10 * measure.Second
	// maxHosts bounds the number of servers.
	maxHosts = 1000
	// maxHostFile bounds a file of addresses, in bytes.
	maxHostFile = 1 << 20
)

// hosts returns the command that shows one row per machine.
func (p Program) hosts() *cobra.Command {
	m := &toolFlags{plan: showOptions{step: defaultHostSpan, count: 1}}
	var file, at string
	var insecure bool
	var fleet EngineHost
	c := &cobra.Command{
		Use:   "hosts ADDRESS... [interval [count]]",
		Short: "many machines, one row each: utilization, findings, and which differ from the others",
		Long: reflow(
			`Asks the servers of many machines what they recorded in the last ten seconds, or in each
interval, and shows a row per machine with the columns of "culprit use". The addresses are those that
"culprit serve" prints. Below a row are the first finding of the newest diagnosis and how the machine
differs from the others: with four hosts or more, those that send, receive or use less than half or
more than twice of the median of the others, by six robust standard deviations. A host that does not
answer has a row with the reason.

The token is part of the address (?token=) or in $CULPRIT_TOKEN, which other users can't see: one for
all, or HOST=TOKEN separated by commas. --file reads addresses from a file, one per line.

With --engine it shows all hosts that send to an engine (Prometheus, VictoriaMetrics, Mimir) in the
last two minutes, or in each interval: those with findings first, then those that differ most, then those
that are silent but reported within a day.`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{
				Line:  "culprit hosts https://a:7410 https://b:7410",
				Means: "the last ten seconds of two machines",
			},
			{Line: "culprit hosts --file cluster 10", Means: "those in a file, every ten seconds"},
			{
				Line:  "culprit hosts --file cluster --sort network_util",
				Means: "the busiest network first",
			},
			{
				Line:  "culprit hosts --engine http://prometheus:9090",
				Means: "all hosts that send to it",
			},
			{Line: "culprit hosts --file cluster --json 60 | jq .rows[].finding", Means: "as JSON"},
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(
		&file, "file", "", "read addresses from this file, one per line; - is standard input",
	)
	f.BoolVar(
		&insecure, "insecure", false,
		"send tokens also by plain HTTP, which others can read",
	)
	fleet.flags(f, false)
	f.StringVar(&at, "at", "", "--engine: the interval that ended at this time: "+timeFormats)
	m.tableFlags(f)
	c.RunE = func(c *cobra.Command, args []string) error {
		if fleet.isSet() {
			if file != "" {
				return usagef("--engine and --file exclude each other")
			}
			return p.showFleet(c, m, fleet, at, args)
		}
		if at != "" {
			return usagef("--at needs --engine")
		}
		i := slices.IndexFunc(args, func(a string) bool { return !strings.Contains(a, "://") })
		if i < 0 {
			i = len(args)
		}
		addresses := slices.Clone(args[:i])
		if err := m.times(args[i:]); err != nil {
			if i < len(args) && !isNumber(args[i]) {
				return usagef(
					"%q is neither an address (https://host:7410/) nor an interval", args[i],
				)
			}
			return err
		}
		if m.plan.step < measure.Second {
			return usagef("interval %v: it must be a whole number of seconds", m.plan.step)
		}
		if file != "" {
			more, err := readAddresses(file)
			if err != nil {
				return err
			}
			addresses = append(addresses, more...)
		}
		switch {
		case len(addresses) == 0:
			return usagef(
				"hosts takes the addresses of servers, as culprit serve prints them, or --file",
			)
		case len(addresses) > maxHosts:
			return usagef("%d addresses are more than %d", len(addresses), maxHosts)
		}
		seen := map[string]bool{}
		for _, a := range addresses {
			if !isServer(a) {
				return usagef(
					"%q is not the address of a server (https://host:7410/)", withoutToken(a),
				)
			}
			if seen[strings.TrimSuffix(withoutToken(a), "/")] {
				return usagef("%s is given twice", withoutToken(a))
			}
			seen[strings.TrimSuffix(withoutToken(a), "/")] = true
		}
		if p.Hosts == nil {
			return fmt.Errorf("this program asks no servers: %w", measure.ErrUnsupported)
		}
		for i := range addresses {
			addresses[i] = withInsecure(addresses[i], insecure)
		}
		hosts, err := p.Hosts(addresses)
		if err != nil {
			return err
		}
		defer hosts.Close()
		return showHosts(c.Context(), hosts, p.Terminal, m.plan)
	}
	return c
}

func isNumber(text string) bool {
	return text != "" && strings.ContainsRune("0123456789.", rune(text[0]))
}

// readAddresses reads a file of addresses, one per line. # starts a comment.
func readAddresses(name string) ([]string, error) {
	in := os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read the addresses of hosts: %w", err)
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	var all []string
	lines := bufio.NewScanner(io.LimitReader(in, maxHostFile))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if !isServer(line) {
			return nil, usagef(
				"%s, line %d: %q is not the address of a server (https://host:7410/)", name, n,
				withoutToken(line),
			)
		}
		all = append(all, line)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the addresses of hosts: %s: %w", name, err)
	}
	if len(all) == 0 {
		return nil, usagef("%s has no addresses", name)
	}
	return all, nil
}

// showHosts shows a table at the end of each interval until the count is reached or the context
// ends. The first table is of the interval before now.
func showHosts(ctx context.Context, hosts Hosts, t Terminal, p showOptions) error {
	out, width := p.printer(t, false)
	notes := output.NewNotes(t.Err)
	defer notes.Finish()
	next := time.NewTicker(p.step.AsDuration())
	defer next.Stop()
	for n := 1; ; n++ {
		all := hosts.Look(ctx, report.HostQueries(), p.step)
		if ctx.Err() != nil {
			return nil
		}
		tab := report.Hosts(all, width)
		end := measure.Time(time.Now().UnixNano())
		tab.Over = measure.Interval{Start: end.Add(-p.step), End: end}
		if p.sortBy != "" {
			i := tab.Column(p.sortBy)
			if i < 0 {
				return show.UnknownColumn(tab, p.sortBy)
			}
			output.SortRows(tab, i, p.reverse)
		}
		output.LimitRows(tab, p.rows)
		if p.format == "" {
			notes.Print(tab)
		}
		if err := out.Table(tab); err != nil {
			return err
		}
		silent := !slices.ContainsFunc(all, func(h report.Host) bool { return h.Frame != nil })
		if p.count > 0 && n >= p.count {
			if silent {
				return fmt.Errorf("no host answered")
			}
			return nil
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return nil
		}
	}
}
