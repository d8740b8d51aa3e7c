package term

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/show"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pastFlags holds the flags that select a recording.
type pastFlags struct {
	from, to, at string
	flag         string // in messages about these times; "": --from, --to, --at
	dir          string
	server       string // address of a server
	insecure     bool   // the token may be sent by plain HTTP
	engine       EngineHost
}

const timeFormats = show.TimeFormats

func (w *pastFlags) flags(f *pflag.FlagSet, ranges bool) {
	if ranges {
		f.StringVar(&w.from, "from", "", "show what was recorded from this time on: "+timeFormats)
		f.StringVar(&w.to, "to", "", "up to this time (default: now)")
		f.StringVar(&w.at, "at", "", "show the interval that ended at this time")
	} else {
		f.StringVar(
			&w.at, "at", "",
			"show what was recorded in the interval that ended at this time: "+timeFormats,
		)
	}
	w.place(f)
}

// place adds the flags that select a recording, without its time.
func (w *pastFlags) place(f *pflag.FlagSet) {
	f.StringVar(
		&w.dir, "dir", "",
		"directory of the recording (default: $CULPRIT_DIR, or that of culprit serve)",
	)
	f.StringVar(
		&w.server, "server", "",
		"show the recording of the server at this address, such as https://host:7410/; "+
			"its token is in the address or in $CULPRIT_TOKEN",
	)
	f.BoolVar(
		&w.insecure, "insecure", false,
		"--server: send the token also by plain HTTP, which others can read",
	)
	w.engine.flags(f, true)
}

// location returns the directory or the address of the recording. It fails if both are given.
func (w *pastFlags) location() (string, error) {
	switch {
	case w.engine.isSet() && (w.dir != "" || w.server != ""):
		return "", usagef("--engine excludes --dir and --server")
	case w.server == "":
		return w.dir, nil
	case w.dir != "":
		return "", usagef("--dir and --server exclude each other")
	case !isServer(w.server):
		return "", usagef(
			"--server %q is not the address of a server (https://host:7410/)",
			withoutToken(w.server),
		)
	}
	return withInsecure(w.server, w.insecure), nil
}

// withInsecure returns an address of a server. With insecure the token may be sent there by plain
// HTTP: see client.DialURL.
func withInsecure(address string, insecure bool) string {
	if insecure && !strings.Contains(address, "#") {
		address += "#insecure"
	}
	return address
}

// isServer reports whether a text is the address of a server.
func isServer(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// withoutToken returns an address without its query and fragment, which may contain a token.
func withoutToken(address string) string {
	address, _, _ = strings.Cut(address, "?")
	address, _, _ = strings.Cut(address, "#")
	return address
}

// checkTimeGiven fails if a recording is selected but no time. times lists the flags for times.
func (w *pastFlags) checkTimeGiven(times string) error {
	switch {
	case w.isSet():
	case w.dir != "":
		return usagef("--dir is for recorded times: give %s too", times)
	case w.server != "":
		return usagef("--server is for recorded times: give %s too", times)
	case w.engine.isSet():
		return usagef("--engine is for recorded times: give %s too", times)
	}
	return nil
}

// registerCompletions lets the shell complete times and directories.
func (w *pastFlags) registerCompletions(c *cobra.Command) {
	times := cobra.FixedCompletions(
		[]string{"now", "-1m", "-5m", "-1h", "-1d"}, cobra.ShellCompDirectiveNoFileComp,
	)
	for _, name := range []string{"from", "to", "at"} {
		if c.Flags().Lookup(name) == nil {
			continue
		}
		if err := c.RegisterFlagCompletionFunc(name, times); err != nil {
			panic(err) // the flag exists and has no completion yet
		}
	}
	if err := c.MarkFlagDirname("dir"); err != nil {
		panic(err) // as above
	}
}

// isSet reports whether a time in the past is given.
func (w *pastFlags) isSet() bool { return w.from != "" || w.to != "" || w.at != "" }

// parse parses the times.
func (w *pastFlags) parse(now time.Time) (show.TimeRange, error) {
	when := show.When{
		From: w.from, To: w.to, At: w.at, FromName: cmp.Or(w.flag, "--from"),
		ToName: cmp.Or(w.flag, "--to"), AtName: cmp.Or(w.flag, "--at"),
	}
	return when.Parse(now)
}

// replay is a machine in a recorded time range.
type replay = show.Replay

// replay opens the recording and the time range that the flags select. With --at alone, the range
// ends then and is as long as span. The caller must close the result.
func (a *archives) replay(
	w *pastFlags, o MachineOptions, span measure.Span,
) (*replay, error) {
	now := time.Now()
	if o.SinceBoot {
		return nil, usagef("--since-boot excludes --from and --at")
	}
	s, err := w.parse(now)
	if err != nil {
		return nil, err
	}
	r, err := a.at(w)
	if err != nil {
		return nil, err
	}
	p, err := show.OpenReplay(r, s, o.Netns, span, now)
	if err == nil && w.server != "" {
		p.Notes = append(p.Notes, "this is of the server at "+withoutToken(w.server))
	}
	return p, err
}

// formatTime formats a time in the local time zone.
func formatTime(t measure.Time) string { return show.FormatTime(t) }

// printNotes prints each note on a line.
func printNotes(out io.Writer, said []string) {
	for _, line := range said {
		fmt.Fprintln(out, "note:", view.Clean(line))
	}
}
