package term

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/measure"
	"culprit/view"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Recorded is the recording of a machine, at a running server or in its archive.
type Recorded interface {
	// Held returns the recorded time range; zero if nothing is recorded.
	Held() measure.Interval
	// Remark describes the source of the data in one sentence; "" for a running server.
	Remark() string
	// Trouble lists the parts that can't be read, and the problems of the server, a sentence each.
	Trouble() []string
	// Replay returns the machine of a time range. netns is as in MachineOptions.
	Replay(over measure.Interval, netns string) Machine
	// Close closes it. No other method may be called afterwards.
	Close() error
}

// pastFlags holds the flags that select a recording.
type pastFlags struct {
	from, to, at string
	dir          string
	server       string // address of a server
	insecure     bool   // the token may be sent by plain HTTP
}

// timeFormats lists the formats of a time, for the help.
const timeFormats = "14:03:22, '2026-11-21 14:03:22', RFC 3339, -5m, now"

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
}

// location returns the directory or the address of the recording. It fails if both are given.
func (w *pastFlags) location() (string, error) {
	switch {
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

// timeRange is the time range that the flags select.
type timeRange struct {
	over   measure.Interval // Start 0: the interval that ends at End
	newest bool             // it ends now, with the newest tick
	notes  []string         // how the flags were interpreted
}

// recordedStep is the time between two recorded ticks.
const recordedStep = measure.Second

// parse parses the flags.
func (w *pastFlags) parse(now time.Time) (timeRange, error) {
	var s timeRange
	read := func(flag, text string) (measure.Time, error) {
		t, said, err := parseTime(text, now)
		if err != nil {
			return 0, usagef("--%s %q: %w", flag, text, err)
		}
		if said != "" {
			s.notes = append(s.notes, "--"+flag+" "+text+" is taken as "+said)
		}
		return measure.Time(t.Unix()) * measure.Time(measure.Second), nil
	}
	var err error
	switch {
	case w.at != "" && (w.from != "" || w.to != ""):
		return s, usagef(
			"--at and --from or --to exclude each other: --at is one interval, " +
				"--from and --to are the ends of a time",
		)
	case w.at != "":
		s.over.End, err = read("at", w.at)
		s.newest = strings.TrimSpace(w.at) == "now"
		return s, err
	case w.from == "":
		return s, usagef("--to needs --from; --at shows the interval that ended at a time")
	}
	if s.over.Start, err = read("from", w.from); err != nil {
		return s, err
	}
	if w.to == "" {
		w.to = "now"
	}
	s.newest = strings.TrimSpace(w.to) == "now"
	if s.over.End, err = read("to", w.to); err != nil {
		return s, err
	}
	switch {
	case s.over.Start > s.over.End:
		return s, usagef(
			"--from %s is after --to %s: %s and %s", w.from, w.to, formatTime(s.over.Start),
			formatTime(s.over.End),
		)
	case s.over.Start == s.over.End:
		return s, usagef(
			"no time lies between --from %s and --to %s; --at shows the interval that ended then",
			w.from, w.to,
		)
	}
	return s, nil
}

var agoPattern = regexp.MustCompile(
	`^-(?:(\d{1,5})d)?((?:\d+(?:\.\d+)?(?:h|m|s|ms))*)$`,
) // table: made once, never changed

// parseTime parses a time in the past. A time of day without a date is today's or yesterday's; said
// describes it in the second case.
func parseTime(text string, now time.Time) (t time.Time, said string, err error) {
	const hint = "write 14:03:22, '2026-11-21 14:03:22', 2026-11-21T14:03:22Z, -5m, -90s, -2d " +
		"or now"
	text = strings.TrimSpace(text)
	switch {
	case text == "now":
		return now, "", nil
	case strings.HasPrefix(text, "-"):
		m := agoPattern.FindStringSubmatch(text)
		if m == nil || m[1] == "" && m[2] == "" {
			return t, "", fmt.Errorf("this is not a time; %s", hint)
		}
		var ago time.Duration
		if m[1] != "" {
			days, _ := strconv.Atoi(m[1]) // five digits at most
			ago = time.Duration(days) * 24 * time.Hour
		}
		if m[2] != "" {
			d, err := time.ParseDuration(m[2])
			if err != nil {
				return t, "", fmt.Errorf("this is not a time; %s", hint)
			}
			ago += d
		}
		t = now.Add(-ago)
		if ago < 0 || t.Unix() < 0 {
			return t, "", fmt.Errorf("that is before 1970")
		}
		return t, "", nil
	}
	for _, form := range []string{"15:04:05", "15:04"} {
		clock, err := time.Parse(form, text)
		if err != nil {
			continue
		}
		local := now.Local()
		on := func(days int) time.Time {
			return time.Date(
				local.Year(), local.Month(), local.Day()-days, clock.Hour(), clock.Minute(),
				clock.Second(), 0, time.Local,
			)
		}
		if t = on(0); !t.After(now) {
			return t, "", nil
		}
		return on(1), "yesterday, " + on(1).Format("2006-01-02 15:04:05"), nil
	}
	t, err = time.Parse(time.RFC3339Nano, text)
	for _, form := range []string{
		"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04",
		"2006-01-02",
	} {
		if err == nil {
			break
		}
		t, err = time.ParseInLocation(form, text, time.Local)
	}
	switch {
	case err != nil:
		return t, "", fmt.Errorf("this is not a time; %s", hint)
	case t.Year() < 1970 || t.Unix() < 0:
		return t, "", fmt.Errorf("that is before 1970")
	case t.After(now):
		return t, "", fmt.Errorf(
			"that is in the future: it is %s now", now.Local().Format("2006-01-02 15:04:05"),
		)
	}
	return t, "", nil
}

// formatTime formats a time in the local time zone.
func formatTime(t measure.Time) string { return t.AsTime().Local().Format("2006-01-02 15:04:05") }

// maxTickAge is the maximum age of the newest tick of a running recording.
const maxTickAge = 5 * measure.Second

// within adjusts "now" to the newest recorded tick, and fails if nothing was recorded in the range.
func (s *timeRange) within(held measure.Interval, remark string, now time.Time) error {
	if held == (measure.Interval{}) {
		return fmt.Errorf("nothing is recorded yet: a new server needs a few seconds")
	}
	holds := "held is " + formatTime(held.Start) + " to " + formatTime(held.End)
	if s.newest && measure.Time(now.UnixNano()).Sub(held.End) < maxTickAge {
		s.over.End = held.End
	}
	switch {
	case s.over.Start == 0 && s.over.End > held.End:
		if remark != "" {
			return usagef(
				"nothing was recorded at %s: no server runs; %s", formatTime(s.over.End), holds,
			)
		}
		return usagef("nothing was recorded at %s; %s", formatTime(s.over.End), holds)
	case s.over.Start >= held.End:
		return usagef("nothing was recorded since %s; %s", formatTime(s.over.Start), holds)
	case s.over.End <= held.Start:
		return usagef("nothing was recorded before %s; %s", formatTime(held.Start), holds)
	}
	return nil
}

// checkRecordedStep fails unless the interval is a multiple of recordedStep.
func checkRecordedStep(step measure.Span) error {
	if step < recordedStep || step%recordedStep != 0 {
		return usagef("interval %v: recorded times need a whole number of seconds", step)
	}
	return nil
}

// archives opens recordings.
type archives struct {
	open func(place string) (Recorded, error) // Program.Recorded; nil: unsupported
}

func (p Program) archives() *archives { return &archives{open: p.Recorded} }

// replay is a machine in a recorded time range.
type replay struct {
	Machine
	timeRange
	recorded Recorded
}

func (r *replay) close() { _ = r.recorded.Close() }

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
	if a.open == nil {
		return nil, fmt.Errorf("read the recording: %w", measure.ErrUnsupported)
	}
	where, err := w.location()
	if err != nil {
		return nil, err
	}
	r, err := a.open(where)
	if err != nil {
		return nil, err
	}
	if err := s.within(r.Held(), r.Remark(), now); err != nil {
		if t := r.Trouble(); len(t) > 0 {
			err = fmt.Errorf("%w; %s", err, firstOf(t))
		}
		_ = r.Close()
		return nil, err
	}
	if s.over.Start == 0 {
		s.over.Start = s.over.End.Add(-span)
	}
	if end := s.over.End.AsTime().Local(); len(s.notes) == 0 &&
		end.Format(time.DateOnly) != now.Local().Format(time.DateOnly) {
		s.notes = append(s.notes, "this is of "+formatTime(s.over.End))
	}
	if w.server != "" {
		s.notes = append(s.notes, "this is of the server at "+withoutToken(w.server))
	}
	if r.Remark() != "" {
		s.notes = append(s.notes, r.Remark())
	}
	if t := r.Trouble(); len(t) > 0 {
		s.notes = append(s.notes, firstOf(t))
	}
	if err := checkNetns(r, s.over, o.Netns); err != nil {
		_ = r.Close()
		return nil, err
	}
	return &replay{r.Replay(s.over, o.Netns), s, r}, nil
}

// firstOf returns the first of some messages, and the number of the others.
func firstOf(all []string) string {
	if len(all) == 1 {
		return all[0]
	}
	return fmt.Sprintf("%s (and %d more)", all[0], len(all)-1)
}

// checkNetns fails if the network namespace did not exist in the time range.
func checkNetns(r Recorded, over measure.Interval, name string) error {
	if name == "" || name == "all" {
		return nil
	}
	m := r.Replay(over, "all")
	q, err := m.Parse("net.device.info by netns")
	if err != nil {
		return err
	}
	var names []string
	gap := false
	err = m.Watch(context.Background(), []measure.Query{q}, func(t *measure.Tick) error {
		gap = isGap(t)
		for i := range t.Answers[0].Series {
			if n := t.Answers[0].Label(i, 0); n != "" {
				names = append(names, n)
			}
		}
		return nil
	})
	if err != nil || gap || slices.Contains(names, name) {
		return err // in a gap it is unknown
	}
	if len(names) == 0 {
		return usagef(
			"there was no network namespace %s then: the server recorded only its own", name,
		)
	}
	slices.Sort(names)
	return usagef(
		"there was no network namespace %s then; there were %s%s", name, strings.Join(names, " "),
		didYouMean(name, append(names, "all")),
	)
}

// printNotes prints each note on a line.
func printNotes(out io.Writer, said []string) {
	for _, line := range said {
		fmt.Fprintln(out, "note:", view.Clean(line))
	}
}

// isGap reports whether nothing was recorded during a tick.
func isGap(t *measure.Tick) bool {
	for _, a := range t.Answers {
		if len(a.Elapsed) > 0 && a.Elapsed[0] > 0 {
			return false
		}
	}
	return t.Over.Span() > 0
}
