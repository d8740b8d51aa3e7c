package term

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"culprit/diagnose"
	"culprit/export/remotewrite"
	"culprit/fleet"
	"culprit/measure"
	"culprit/view"
	"culprit/view/report"

	"github.com/spf13/cobra"
)

// Serving holds the flags of `culprit serve`.
type Serving struct {
	Listen string // address and port
	Dir    string // directory of the recording; "": the default
	// How long to keep seconds, minutes and hours; 0: the default of the archive.
	Keep      [3]measure.Span
	Size      int64                // maximum bytes on disk; 0: the default of the archive
	Cert, Key string               // files; both or none
	For       time.Duration        // end after this time; 0: never
	DiskFull  string               // what to delete if the disk is full: "oldest" or "newest"
	Budget    float64              // maximum share of one CPU for recording; 0: no limit
	Targets   []remotewrite.Target // of Prometheus remote write, checked
	Profile   int                  // samples per second and CPU; 0: none
	Commands  bool                 // record whole command lines, not only the program
	KernelLog bool                 // record messages of the kernel's log
	// Maximum bytes of kernel memory of the maps of all running scripts; 0: no limit.
	ScriptMemory int64
	PrintToken   bool // print the address with the token
	Access       Access
	Masks        measure.Masker // of secrets in recorded command lines
	Export       Export
	Config       Configuration
	Engine       EngineHost     // the engine whose hosts the page shows; URL "": none
	HostURL      fleet.Template // address of the server of each host; "": unknown
}

// Teller prints messages of a server for its user. It is safe for concurrent use.
type Teller struct {
	t       Terminal
	mu      sync.Mutex
	printed []measure.Problem
}

// Say prints a line.
func (w *Teller) Say(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintln(w.t.Out, text) //nolint:errcheck // a terminal that is gone ends no recording
}

// OnTerminal reports whether the messages go to a terminal.
func (w *Teller) OnTerminal() bool { return w.t.IsTTY }

// Diagnosis prints a report.
func (w *Teller) Diagnosis(r *diagnose.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprint(
		w.t.Out, "\n"+report.Diagnosis(r, w.t.Width, w.t.Colour)+"\n",
	) //nolint:errcheck // as above
}

// Trouble prints new problems, and those that have ended. A change of the text, such as of a count,
// is not printed.
func (w *Teller) Trouble(all []measure.Problem) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in := func(list []measure.Problem, key string) bool {
		return slices.ContainsFunc(list, func(t measure.Problem) bool { return t.Key == key })
	}
	var lasting []measure.Problem // with the printed text
	for _, t := range w.printed {
		if in(all, t.Key) {
			lasting = append(lasting, t)
			continue
		}
		fmt.Fprintln(w.t.Err, "culprit: over:", view.Clean(t.Text)) //nolint:errcheck // as above
	}
	w.printed = lasting
	for _, t := range all {
		if !in(w.printed, t.Key) {
			fmt.Fprintln(w.t.Err, "culprit:", view.Clean(t.Text)) //nolint:errcheck // as above
			w.printed = append(w.printed, t)
		}
	}
}

// defaultListen is the default address and port.
const defaultListen = "127.0.0.1:7410"

func (p Program) serve() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "record everything each second and serve it as a page",
		Long: reflow(
			`Records all statistics of the tools and the diagnosis, each second, and serves the page on the
loopback address. It prints an address with a token that admits a browser; the token is made at the
first start and stays in the file token of the directory. It grants every role, also D programs, and
is as good as root where the server measures as root: make others with "culprit tokens". The tools show what was recorded with
--from, --to and --at. Every ten seconds it diagnoses the last ten seconds and keeps the findings.

It needs no root; root sees more. Recording uses about 1 % of one CPU. Above --budget, the most
expensive part is suspended for ten minutes or longer, and named.

Each flag is also a key of the configuration file, /etc/culprit/culprit.yaml: --size 3GB is size:
3GB. A flag has precedence. SIGHUP reads the file again; "culprit config -h" has the rest.`,
			helpWidth,
		),
		Args: cobra.NoArgs,
		Example: examples([]view.Example{
			{Line: "culprit serve", Means: "record, and serve the page on " + defaultListen},
			{
				Line:  "culprit serve --keep 1s=2d,1m=30d,1h=365d --size 10GB",
				Means: "keep seconds for two days, minutes for a month, hours for a year",
			},
			{
				Line:  "culprit serve --listen 10.0.0.5:7410 --tls-cert cert.pem --tls-key key.pem",
				Means: "for other machines too, with TLS",
			},
			{Line: "culprit serve --for 30s", Means: "end after half a minute"},
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	var v serveFlags
	v.define(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := p.serving(c.Flags())
		if err != nil {
			return err
		}
		if p.Serve == nil {
			return fmt.Errorf("this program records nothing: %w", measure.ErrUnsupported)
		}
		return p.Serve(c.Context(), s, &Teller{t: p.Terminal})
	}
	return c
}
