package term

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"culprit/load"
	"culprit/measure"
	"culprit/view"
	"culprit/view/report"

	"github.com/spf13/cobra"
)

// loadToken is the environment variable of the token. Other users can see command lines.
const loadToken = "CULPRIT_LOAD_TOKEN"

// loadCommands makes the commands of the load test.
type loadCommands struct {
	version    string
	machine    func() load.Machine // Program.LoadMachine
	readsFiles func()              // Program.ReadsFiles
	terminal   Terminal
}

func (p Program) load() *cobra.Command {
	l := &loadCommands{p.Version, p.LoadMachine, p.ReadsFiles, p.Terminal}
	return l.command()
}

func (l *loadCommands) command() *cobra.Command {
	c := &cobra.Command{
		Use:   "load",
		Short: "throughput and latency between two machines (netperf, iperf3)",
		Long: reflow(
			`One machine runs culprit load serve; another one sends it a stream of bytes, or requests that it
answers one after the other. The output has each interval, each run and the mean of all runs, with
the CPU time that the traffic cost at both ends, the share of the link that it used, and what limited
it.`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{
				Line:  "culprit load serve --listen 10.0.0.2:" + load.Port,
				Means: "on one machine; it prints a token",
			},
			{
				Line:  "CULPRIT_LOAD_TOKEN=... culprit load stream 10.0.0.2",
				Means: "on the other one: throughput",
			},
			{Line: "CULPRIT_LOAD_TOKEN=... culprit load rr 10.0.0.2", Means: "latency"},
			{
				Line:  "culprit load compare before.json after.json",
				Means: "compare two results of -o",
			},
		}),
		Args: cobra.ArbitraryArgs,
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		var names []string
		for _, sub := range c.Commands() {
			names = append(names, sub.Name())
		}
		if len(args) == 0 {
			return usagef(
				"give a command: culprit load %s (`culprit load -h` lists them)",
				strings.Join(names, ", "),
			)
		}
		return usagef(
			"culprit load has no command %q%s (`culprit load -h` lists them)", args[0],
			didYouMean(args[0], names),
		)
	}
	c.AddCommand(l.serve(), l.stream(), l.exchange(), l.connect(), l.compare())
	return c
}

func (l *loadCommands) serve() *cobra.Command {
	listen, longest, memory := net.JoinHostPort("127.0.0.1", load.Port), "10m", "256MB"
	tests, open := 4, false
	c := &cobra.Command{
		Use:   "serve",
		Short: "answer the tests of other machines",
		Long: reflow(
			`Listens, by default on the loopback address, and prints the token that a client needs. The
token is new at each start unless `+loadToken+` has one. It sends traffic only to clients that know
the token, and only over connections that the client opened. A test ends when its client is gone.
Traffic is not encrypted; the token is never sent.`,
			helpWidth,
		),
		Args: cobra.NoArgs,
		Example: examples([]view.Example{
			{Line: "culprit load serve", Means: "for tests within this machine"},
			{
				Line:  "culprit load serve --listen 10.0.0.2:" + load.Port,
				Means: "for clients of another machine",
			},
			{
				Line:  "culprit load serve --listen :" + load.Port + " --open",
				Means: "for all clients, without a token: in a trusted network",
			},
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&listen, "listen", listen, "address and port")
	f.BoolVar(&open, "open", false, "allow tests without a token")
	f.IntVar(&tests, "tests", tests, "highest number of tests at once")
	f.StringVar(&longest, "longest", longest, "longest test")
	f.StringVar(&memory, "memory", memory, "highest sum of the buffers of all tests")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if host, port, err := net.SplitHostPort(listen); err != nil || port == "" {
			return usagef(
				"--listen %q: give an address and a port, such as 10.0.0.2:%s", listen, load.Port,
			)
		} else if _, err := net.LookupPort("tcp", port); err != nil {
			return usagef("--listen %q: %q is not a port", listen, port)
		} else if _, err := netip.ParseAddr(host); err != nil && host != "" && host != "localhost" {
			return usagef(
				"--listen %q: %q is not an address; give one of this machine, or none for all",
				listen, host,
			)
		}
		limit, err := parseSpan("--longest", longest)
		if err != nil {
			return err
		}
		bytes, err := parseSize("memory", memory)
		if err != nil {
			return err
		}
		if tests < 1 || tests > 64 {
			return usagef("--tests %d: from 1 to 64", tests)
		}
		return l.listen(c.Context(), listen, open, &load.Server{
			Tests: tests, Longest: limit, Memory: bytes,
		})
	}
	return c
}

// listen serves load tests until the context ends.
func (l *loadCommands) listen(
	ctx context.Context, address string, open bool, s *load.Server,
) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	defer listener.Close()
	if !open {
		if s.Token = os.Getenv(loadToken); s.Token == "" {
			s.Token = load.NewToken()
		}
	}
	s.Machine = l.machine()
	console := &Teller{t: l.terminal}
	s.Say = console.Say
	console.Say("culprit load serve listens on " + listener.Addr().String())
	switch {
	case open:
		console.Say("it is open: it needs no token")
	case os.Getenv(loadToken) != "":
		console.Say("its token is that of " + loadToken)
	default:
		console.Say("token " + s.Token)
	}
	return s.Serve(ctx, listener)
}

// loadFlags holds the flags of a load test.
type loadFlags struct {
	test                              load.Test
	client                            load.Client
	length, every, size, window, rate string
	bind, unit, out                   string
	runs                              int
	reverse, both, json, csv, iperf3  bool
}

func (q *loadFlags) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&q.length, "for", "10s", "duration of a run")
	f.StringVar(&q.every, "every", "1s", "interval of the output")
	f.IntVar(&q.runs, "runs", 3, "number of runs; from three on with the 95 % interval of the mean")
	f.IntVarP(&q.test.Streams, "streams", "P", 1, "number of connections")
}

func (q *loadFlags) outputFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(
		&q.window, "window", "",
		"socket buffers of both ends, such as 512KiB (default: the kernel's choice)",
	)
	f.StringVar(
		&q.test.Congestion, "congestion", "", "congestion control of the senders: cubic, bbr, reno",
	)
	f.StringVar(&q.bind, "bind", "", "local address")
	f.StringVar(
		&q.client.Token, "token", "",
		"the server's token; "+loadToken+" is safer, since other users see command lines",
	)
	f.BoolVar(
		&q.test.Look, "diagnosis", true, "diagnose both machines meanwhile, to find the limit",
	)
	f.BoolVar(
		&q.json, "json", false, "one JSON object per interval and one of the result, one per line",
	)
	f.BoolVar(&q.csv, "csv", false, "intervals as comma-separated values with a header line")
	f.StringVarP(&q.out, "out", "o", "", "write the result to this file, for culprit load compare")
	completeWith(c, "congestion", []string{"cubic", "bbr", "reno", "dctcp"})
	c.Args = cobra.ArbitraryArgs
	c.ValidArgsFunction = cobra.NoFileCompletions
}

func (l *loadCommands) stream() *cobra.Command {
	q := &loadFlags{test: load.Test{Kind: load.Stream}}
	c := &cobra.Command{
		Use:   "stream HOST[:PORT]",
		Short: "throughput of TCP (netperf TCP_STREAM, iperf3)",
		Long:  reflow(streamHelp, helpWidth),
		Example: examples([]view.Example{
			{
				Line:  "culprit load stream 10.0.0.2",
				Means: "three runs of ten seconds, from here to there",
			},
			{
				Line:  "culprit load stream 10.0.0.2 --reverse --for 20s -P 4",
				Means: "in the other direction, over four connections",
			},
			{
				Line:  "culprit load stream 10.0.0.2 --rate 100Mbit/s --runs 1",
				Means: "at most 100 Mbit/s",
			},
			{
				Line:  "culprit load stream 10.0.0.2 -o before.json",
				Means: "write the result, to compare it later",
			},
		}),
	}
	f := c.Flags()
	f.SortFlags = false
	q.flags(c)
	f.BoolVarP(&q.reverse, "reverse", "R", false, "from the server to this machine")
	f.BoolVar(&q.both, "both", false, "both directions at once, on separate connections")
	f.StringVar(&q.size, "size", "128KiB", "bytes per write")
	f.StringVar(
		&q.rate, "rate", "",
		"limit per direction, of all connections together: 100Mbit/s; max: none, for --udp",
	)
	f.BoolVarP(
		&q.test.UDP, "udp", "u", false,
		"datagrams: loss, reordering and jitter; needs --rate (default --size: 1448)",
	)
	f.BoolVar(&q.test.NoDelay, "nodelay", false, "send small writes at once (TCP_NODELAY)")
	f.BoolVar(
		&q.test.Copy, "copy", false,
		"copy received bytes to the program (default: the kernel discards them)",
	)
	f.BoolVar(
		&q.iperf3, "iperf3", false,
		"HOST runs iperf3 -s, by default on port "+load.Iperf3Port+"; without its CPUs and link",
	)
	f.StringVarP(
		&q.unit, "format", "f", "",
		"unit of throughput: k, m, g, t bits per second (default: by the first interval)",
	)
	q.outputFlags(c)
	completeWith(c, "format", report.LoadUnits())
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		switch q.test.Way = load.Up; {
		case q.reverse && q.both:
			return usagef("--reverse and --both exclude each other")
		case q.reverse:
			q.test.Way = load.Down
		case q.both:
			q.test.Way = load.Both
		}
		if q.test.UDP && !c.Flags().Changed("size") {
			q.size = "1448" // a segment of TCP on Ethernet, as in iperf3
		}
		if q.test.Size, err = parseBytes("--size", q.size); err != nil {
			return err
		}
		switch {
		case q.test.UDP && q.rate == "":
			return usagef("--udp needs --rate, such as 100Mbit/s: UDP slows down for nothing; " +
				"--rate max sends as fast as this machine can")
		case q.rate == "max":
			q.rate = ""
		}
		if q.rate != "" {
			if q.test.Rate, err = parseBits("--rate", q.rate); err != nil {
				return err
			}
		}
		if q.unit != "" && !slices.Contains(report.LoadUnits(), q.unit) {
			return usagef(
				"-f %q is none of %s%s", q.unit, strings.Join(report.LoadUnits(), ", "),
				didYouMean(q.unit, report.LoadUnits()),
			)
		}
		return q.run(c.Context(), l, args)
	}
	return c
}

const streamHelp = `Sends bytes over TCP, in several runs on new connections each, and shows per interval: the payload
that the receiver got, segments sent again, the sender's round-trip time and congestion window, and
how busy the CPUs of both machines are. At the end it shows the mean of the runs with its spread, the
CPU time per GB at both ends, the share of the link's speed in bytes on the wire, and the limit: a
link, a CPU, a window, losses, --rate, or what the diagnosis of either machine found.

By default the receiving kernel discards the bytes (MSG_TRUNC), so that the network is tested and not
the memory. --copy copies them to the program, like iperf3 and netperf.

With --iperf3 the other end is an existing iperf3 -s. It reports its bytes at the end of a run only:
the intervals show what this end sent or received.

With --udp it sends datagrams at --rate, and shows those that were lost, those that came after a later
one, and the jitter (RFC 3550), as iperf3 counts them. The server uses a port that its kernel chooses
for each connection. UDP has no congestion control: on a shared network give a rate that it can take.

"-" (null in JSON) means not known. Ctrl-C ends the test and prints the results so far.`

func (l *loadCommands) exchange() *cobra.Command {
	q := &loadFlags{test: load.Test{Kind: load.Exchange, Way: load.Up}}
	c := &cobra.Command{
		Use:   "rr HOST[:PORT]",
		Short: "latency: requests and responses over TCP or UDP (netperf TCP_RR, UDP_RR)",
		Long:  reflow(exchangeHelp, helpWidth),
		Example: examples([]view.Example{
			{
				Line:  "culprit load rr 10.0.0.2",
				Means: "one byte there, one byte back, one after the other",
			},
			{
				Line:  "culprit load rr 10.0.0.2 --size 100,16KiB -P 8",
				Means: "eight connections, requests of 100 B, responses of 16 KiB",
			},
			{
				Line:  "culprit load rr 10.0.0.2 --rate 1000/s",
				Means: "a thousand per second, each timed from its due time",
			},
			{Line: "culprit load rr 10.0.0.2 --udp", Means: "over UDP"},
		}),
	}
	l.exchanges(c, q)
	return c
}

func (l *loadCommands) connect() *cobra.Command {
	q := &loadFlags{test: load.Test{Kind: load.Exchange, Way: load.Up, Connect: true}}
	c := &cobra.Command{
		Use:   "crr HOST[:PORT]",
		Short: "connection, request and response, as HTTP without keep-alive (netperf TCP_CRR)",
		Long:  reflow(connectHelp, helpWidth),
		Example: examples([]view.Example{
			{Line: "culprit load crr 10.0.0.2", Means: "one connection after the other"},
			{
				Line:  "culprit load crr 10.0.0.2 --size 200,16KiB -P 4 --rate 1000/s",
				Means: "a thousand connections per second by four threads",
			},
		}),
	}
	l.exchanges(c, q)
	return c
}

// exchanges adds the flags of requests and responses, and runs them.
func (l *loadCommands) exchanges(c *cobra.Command, q *loadFlags) {
	f := c.Flags()
	f.SortFlags = false
	q.flags(c)
	f.StringVar(&q.size, "size", "1,1", "bytes of a request and of a response")
	f.StringVar(
		&q.rate, "rate", "",
		"transactions begun per second, of all connections together: 1000/s "+
			"(default: the next begins after the response)",
	)
	if !q.test.Connect {
		f.BoolVarP(
			&q.test.UDP, "udp", "u", false,
			"datagrams: a response that does not come within 200 ms is lost",
		)
	}
	q.outputFlags(c)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		ask, answer, two := strings.Cut(q.size, ",")
		if !two {
			answer = ask
		}
		if q.test.Ask, err = parseBytes("--size", ask); err != nil {
			return err
		}
		if q.test.Answer, err = parseBytes("--size", answer); err != nil {
			return err
		}
		if q.rate != "" {
			n, err := strconv.ParseFloat(strings.TrimSuffix(q.rate, "/s"), 64)
			if err != nil || !(n > 0) || math.IsInf(n, 0) {
				return usagef("--rate %q: give transactions per second, such as 1000/s", q.rate)
			}
			q.test.Pace = n
		}
		return q.run(c.Context(), l, args)
	}
}

const connectHelp = `Makes a TCP connection, sends a request, reads the response until the server closes, and begins again,
on each of --streams threads. A transaction is timed from before the connection is made. The server
closes first, so that the client's ports are free for the next ones. A connection that fails or takes
more than 2 s is counted as lost, and not timed.

The server uses a port that its kernel chooses for each thread, and answers there to the client of the
test only. --rate and percentiles are those of culprit load rr.

"-" (null in JSON) means not known. Ctrl-C ends the test and prints the results so far.`

const exchangeHelp = `Sends a request, waits for the response, and sends the next one, on each of --streams connections.
With --udp the server uses a port that its kernel chooses for each of them.
Each transaction is timed: percentiles are of all of them, within 0.8 %, and not means of intervals.
The mean is the inverse of netperf's transaction rate with one connection.

With --rate transactions begin at fixed times, and the time of each counts from its due time even if
the response before it was late. So a stall of the server counts in all transactions that it delayed;
without --rate it counts in one (coordinated omission).

"-" (null in JSON) means not known. Ctrl-C ends the test and prints the results so far.`

// loadRunner runs a test once: load.Session.Run.
type loadRunner interface {
	Run(context.Context, int, load.Test, func(*load.Interval)) (*load.Run, error)
}

// connect returns what runs the test and the address of the server. The caller must call done.
func (q *loadFlags) connect(ctx context.Context) (r loadRunner, server string, done func(),
	err error) {
	if q.iperf3 {
		return &load.Iperf3{Client: q.client}, "iperf3 at " + q.client.Server, func() {}, nil
	}
	session, err := q.client.Dial(ctx)
	if err != nil {
		return nil, "", nil, err
	}
	return session, session.Server, session.Close, nil
}

// run runs the test and prints its results.
func (q *loadFlags) run(ctx context.Context, l *loadCommands, args []string) (err error) {
	switch {
	case len(args) == 0:
		return usagef(
			"give a host that runs culprit load serve: culprit load %s HOST[:PORT]", q.test.Kind,
		)
	case len(args) > 1:
		return usagef("unexpected %q after the host", args[1])
	case q.json && q.csv:
		return usagef("--json and --csv exclude each other")
	case q.runs < 1 || q.runs > 1000:
		return usagef("--runs %d: from 1 to 1000", q.runs)
	}
	q.client.Server = args[0]
	if _, err := load.HostPort(args[0]); err != nil {
		return usageError{Cause: err}
	}
	if q.test.For, err = parseSpan("--for", q.length); err != nil {
		return err
	}
	if q.test.Every, err = parseSpan("--every", q.every); err != nil {
		return err
	}
	if q.window != "" {
		if q.test.Window, err = parseBytes("--window", q.window); err != nil {
			return err
		}
	}
	if q.bind != "" {
		if q.client.Bind, err = netip.ParseAddr(q.bind); err != nil {
			return usagef("--bind %q: give an address of this machine, such as 10.0.0.1", q.bind)
		}
	}
	q.test.Every = min(q.test.Every, q.test.For)
	if err := q.test.Check(); err != nil {
		return usageError{Cause: err}
	}
	if q.iperf3 {
		if err := q.test.CheckIperf3(); err != nil {
			return usageError{Cause: err}
		}
		q.test.Copy = q.test.Copy || q.test.Way == load.Up && !q.test.UDP // it copies
	}
	if q.client.Token == "" {
		q.client.Token = os.Getenv(loadToken)
	}
	var kept *os.File
	if q.out != "" { // fail before anything is measured
		if kept, err = os.Create(q.out); err != nil {
			return fmt.Errorf("keep the result: %w", err)
		}
		defer func() {
			if e := kept.Close(); err == nil && e != nil {
				err = fmt.Errorf("keep the result: %w", e)
			}
		}()
	}
	q.client.Machine = l.machine()
	runner, server, done, err := q.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	o := &loadOutput{q: q, t: l.terminal}
	o.begin(server)
	var runs []*load.Run
	for n := 1; n <= q.runs && err == nil; n++ {
		var run *load.Run
		if run, err = runner.Run(ctx, n, q.test, o.interval); run != nil {
			runs = append(runs, run)
			o.run(run)
		}
	}
	interrupted := err != nil && ctx.Err() != nil
	if len(runs) > 0 {
		r := load.Summarise(q.test, server, l.version, runs)
		if kept != nil {
			if e := writeJSON(kept, r); e != nil {
				return errors.Join(err, fmt.Errorf("keep the result: %w", e))
			}
		}
		o.result(r)
	}
	if err == nil {
		err = o.err
	}
	if interrupted {
		return o.err
	}
	return err
}

// writeJSON writes a value as JSON on one line.
func writeJSON(f *os.File, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := f.Write(measure.AppendJSON(nil, b.Bytes()))
	return err
}
