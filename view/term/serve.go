package term

import (
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"culprit/diagnose"
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
	Size      int64         // maximum bytes on disk; 0: the default of the archive
	Cert, Key string        // files; both or none
	For       time.Duration // end after this time; 0: never
	DiskFull  string        // what to delete if the disk is full: "oldest" or "newest"
	Budget    float64       // maximum share of one CPU for recording; 0: no limit
	WriteTo   string        // address of a Prometheus remote-write receiver; "": none
	WriteEach measure.Span  // time between the samples that are sent there
	Profile   int           // samples per second and CPU; 0: none
	Commands  bool          // record whole command lines, not only the program
	// Maximum bytes of kernel memory of the maps of all running scripts; 0: no limit.
	ScriptMemory int64
	PrintToken   bool           // print the address with the token
	Masks        measure.Masker // of secrets in recorded command lines
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
	var s Serving
	var keep, size, length, budget, profile, each, scriptMemory string
	var masks []string
	c := &cobra.Command{
		Use:   "serve",
		Short: "record everything each second and serve it as a page",
		Long: reflow(
			`Records all statistics of the tools and the diagnosis, each second, and serves the page on the
loopback address. It prints an address with a token that admits a browser; the token is made at the
first start and stays in the file token of the directory. The tools show what was recorded with
--from, --to and --at. Every ten seconds it diagnoses the last ten seconds and keeps the findings.

It needs no root; root sees more. Recording uses about 1 % of one CPU. Above --budget, the most
expensive part is suspended for ten minutes or longer, and named.`,
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
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(
		&s.Listen, "listen", defaultListen,
		"address and port; one that other machines can reach needs TLS",
	)
	f.StringVar(
		&s.Dir, "dir", "",
		"directory of the recording (default: $CULPRIT_DIR, /var/lib/culprit for root, "+
			"else culprit in $XDG_STATE_HOME or ~/.local/state)",
	)
	f.StringVar(&keep, "keep", "1s=7d,1m=14d,1h=90d", "how long to keep seconds, minutes and hours")
	f.StringVar(&size, "size", "2GB", "limit on disk; the oldest data is deleted first")
	f.StringVar(
		&s.DiskFull, "disk-full", "oldest", "what to drop if the disk is full: oldest, newest",
	)
	f.StringVar(
		&budget, "budget", "10%",
		"limit of one CPU for recording; above it the most expensive part is suspended; "+
			"0: no limit",
	)
	f.StringVar(
		&profile, "profile", "49", "stack samples per second and CPU, recorded too; off for none",
	)
	f.BoolVar(
		&s.Commands, "command-lines", false,
		"record whole command lines, which may contain passwords (default: the program only)",
	)
	f.StringArrayVar(
		&masks, "mask", nil,
		"with --command-lines: also mask matches of this regular expression, except its group 1; "+
			"off: mask nothing (default: passwords, tokens and keys in the usual forms)",
	)
	f.StringVar(
		&scriptMemory, "script-memory", "256MB",
		"limit of the kernel memory that all running D programs take, by their buffers",
	)
	f.BoolVar(
		&s.PrintToken, "print-token", false,
		"print the address with the token also where the output is no terminal, such as a log",
	)
	f.StringVar(
		&s.WriteTo, "remote-write", "",
		"send the recording to this address by Prometheus remote write, "+
			"with $CULPRIT_REMOTE_WRITE_TOKEN if set",
	)
	f.StringVar(
		&each, "remote-write-each", "15s", "time between the sent samples: 1s, 5s, 15s, 60s",
	)
	f.StringVar(&s.Cert, "tls-cert", "", "file of the certificate and its chain")
	f.StringVar(&s.Key, "tls-key", "", "file of the private key")
	f.StringVar(
		&length, "for", "",
		"end after this time, such as 30s or 2h, but not before the first diagnosis",
	)
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if s.Keep, err = parseKeep(keep); err != nil {
			return err
		}
		if s.Size, err = parseSize("size", size); err != nil {
			return err
		}
		if s.ScriptMemory, err = parseSize("script-memory", scriptMemory); err != nil {
			return err
		}
		if s.Masks, err = measure.ParseMasks(masks); err != nil {
			return usagef("--mask: %w", err)
		}
		s.PrintToken = s.PrintToken || p.Terminal.IsTTY
		if s.Budget, err = parseShare(budget); err != nil {
			return err
		}
		if s.Profile, err = parseRate(profile); err != nil {
			return err
		}
		if s.WriteEach, err = parseInterval(each); err != nil {
			return usagef("--remote-write-each %q: give a time such as 15s", each)
		}
		if s.WriteEach < measure.Second || s.WriteEach%measure.Second != 0 ||
			measure.Minute%s.WriteEach != 0 {
			return usagef("--remote-write-each %s: it must divide a minute: 1s, 5s, 15s, 60s", each)
		}
		if s.WriteTo != "" && !isServer(s.WriteTo) {
			return usagef(
				"--remote-write: give the address of a receiver, such as https://host/api/v1/write",
			) // it may have a password
		}
		if length != "" {
			if s.For, err = time.ParseDuration(length); err != nil || s.For < time.Second {
				return usagef("--for %q: give a time of a second or more, such as 30s", length)
			}
		}
		if _, _, err := net.SplitHostPort(s.Listen); err != nil {
			return usagef(
				"--listen %q: give an address and a port, such as %s", s.Listen, defaultListen,
			)
		}
		if (s.Cert == "") != (s.Key == "") {
			return usagef("--tls-cert and --tls-key belong together")
		}
		if full := []string{"oldest", "newest"}; !slices.Contains(full, s.DiskFull) {
			return usagef(
				"--disk-full %q is none of %s%s", s.DiskFull, strings.Join(full, ", "),
				didYouMean(s.DiskFull, full),
			)
		}
		if p.Serve == nil {
			return fmt.Errorf("this program records nothing: %w", measure.ErrUnsupported)
		}
		return p.Serve(c.Context(), s, &Teller{t: p.Terminal})
	}
	return c
}

var (
	keepPattern = regexp.MustCompile(
		`^(1s|1m|1h)=([0-9]+(?:\.[0-9]+)?)(s|m|h|d|w|y)$`,
	) // table: made once, never changed
	sizePattern = regexp.MustCompile(
		`^([0-9]+(?:\.[0-9]+)?) ?([kKMGT]?)(i?)[bB]?$`,
	) // table: made once, never changed
	daysPerUnit = map[string]float64{
		"s": 1. / 86400,
		"m": 1. / 1440,
		"h": 1. / 24,
		"d": 1,
		"w": 7,
		"y": 365,
	} // table: units of time
)

// parseShare parses a share of one CPU: "1%" or "0.5 %".
func parseShare(text string) (float64, error) {
	n, err := strconv.ParseFloat(
		strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "%")), 64,
	)
	if err != nil || !(n >= 0) || n > 100 || n > 0 && n < 0.01 ||
		n > 0 && !strings.Contains(text, "%") {
		return 0, usagef(
			"--budget %q: give per cent of one CPU, from 0.01%% to 100%%, or 0 for no limit", text,
		)
	}
	return n / 100, nil
}

// maxRecordedRate is the highest sampling rate of a server.
const maxRecordedRate = 999

// parseRate parses the sampling rate of a server: "49"; "off" is 0.
func parseRate(text string) (int, error) {
	if text == "off" || text == "0" {
		return 0, nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(text, "Hz"))
	if err != nil || n < 1 || n > maxRecordedRate {
		return 0, usagef(
			"--profile %q: give samples per second, from 1 to %d, or off", text, maxRecordedRate,
		)
	}
	return n, nil
}

// parseKeep parses "1s=7d,1m=14d,1h=90d". A step that is not named is 0.
func parseKeep(text string) (keep [3]measure.Span, err error) {
	for _, part := range strings.Split(text, ",") {
		m := keepPattern.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return keep, usagef(
				"--keep %q: give the times to keep seconds, minutes and hours, "+
					"such as 1s=7d,1m=14d,1h=90d",
				text,
			)
		}
		n, err := strconv.ParseFloat(m[2], 64)
		days := n * daysPerUnit[m[3]]
		if err != nil || days < 1./144 || days > 36500 {
			return keep, usagef("--keep %s: from 10m to 100y", part)
		}
		i := slices.Index([]string{"1s", "1m", "1h"}, m[1])
		if keep[i] != 0 {
			return keep, usagef("--keep names %s twice", m[1])
		}
		keep[i] = measure.Span(days * 86400 * float64(measure.Second))
	}
	return keep, nil
}

// minArchiveSize is the smallest size of an archive: an hour of a small machine.
const minArchiveSize = 32 << 20

// parseSize parses the bytes in a flag: "2GB", "500 MiB".
func parseSize(flag, text string) (int64, error) {
	m := sizePattern.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, usagef(
			"--%s %q: give a number of bytes, such as 500MB, 2GB or 1TiB", flag, text,
		)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	base := 1000.
	if m[3] != "" {
		base = 1024
	}
	n *= math.Pow(base, float64(strings.Index("KMGT", strings.ToUpper(m[2]))+1))
	if m[2] == "" {
		n /= base // Index of "" is 0
	}
	if err != nil || n < minArchiveSize || n > 1e15 {
		return 0, usagef("--%s %q: from 32MiB to 1000TB", flag, text)
	}
	return int64(n), nil
}
