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

// Recorded is what was recorded of this machine, at a running server or in the archive of one that
// has ended.
type Recorded interface {
	// Held gives the time that something is held of; zero when nothing is.
	Held() measure.Interval
	// Remark says in a sentence where the numbers come from; "" when it is a running server.
	Remark() string
	// Trouble says in a sentence each what can't be read of it, and what is wrong with the server.
	Trouble() []string
	// Replay gives the machine of a time. netns as in Look.
	Replay(over measure.Interval, netns string) Machine
	// Close lets go of it. Nothing is asked after it.
	Close() error
}

// past is the flags of a command that looks at what was recorded.
type past struct {
	from, to, at string
	dir          string
	server       string // address of another machine's
}

// momentForm says how a time is written.
const momentForm = "14:03:22, '2026-11-21 14:03:22', RFC 3339, -5m, now"

func (w *past) flags(f *pflag.FlagSet, ranges bool) {
	if ranges {
		f.StringVar(&w.from, "from", "", "show what was recorded from this time on: "+momentForm)
		f.StringVar(&w.to, "to", "", "up to this time (default: now)")
		f.StringVar(&w.at, "at", "", "show the interval that ended at this time")
	} else {
		f.StringVar(&w.at, "at", "", "show what was recorded in the interval that ended at this time: "+momentForm)
	}
	f.StringVar(
		&w.dir, "dir", "",
		"directory of the recording (default: $CULPRIT_DIR, or that of culprit serve)",
	)
	f.StringVar(
		&w.server, "server", "",
		"show the recording of the server at this address, such as https://host:7410/; its token is in the address or in $CULPRIT_TOKEN",
	)
}

// where gives where the past is, and refuses two places.
func (w *past) where() (string, error) {
	switch {
	case w.server == "":
		return w.dir, nil
	case w.dir != "":
		return "", usagef("--dir and --server exclude each other")
	case !isServer(w.server):
		return "", usagef(
			"--server %q is not the address of a server (https://host:7410/)", bare(w.server),
		)
	}
	return w.server, nil
}

// isServer says whether a text is the address of a server.
func isServer(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// bare gives the address of a server without what follows its path, a token.
func bare(address string) string {
	address, _, _ = strings.Cut(address, "?")
	address, _, _ = strings.Cut(address, "#")
	return address
}

// placed refuses a place of the past where no time is given; times is which flags give one.
func (w *past) placed(times string) error {
	switch {
	case w.given():
	case w.dir != "":
		return usagef("--dir is for recorded times: give %s too", times)
	case w.server != "":
		return usagef("--server is for recorded times: give %s too", times)
	}
	return nil
}

// complete makes the shell offer times and directories for the flags.
func (w *past) complete(c *cobra.Command) {
	times := cobra.FixedCompletions(
		[]string{"now", "-1m", "-5m", "-1h", "-1d"}, cobra.ShellCompDirectiveNoFileComp,
	)
	for _, name := range []string{"from", "to", "at"} {
		if c.Flags().Lookup(name) == nil {
			continue
		}
		if err := c.RegisterFlagCompletionFunc(name, times); err != nil {
			panic(err) // the flag is there, and nobody else completes it
		}
	}
	if err := c.MarkFlagDirname("dir"); err != nil {
		panic(err) // as above
	}
}

// given says whether the past is asked for.
func (w *past) given() bool { return w.from != "" || w.to != "" || w.at != "" }

// span is the time that the flags name.
type span struct {
	over   measure.Interval // Start 0: the intervals that end at End
	newest bool             // it ends with the newest tick: now
	said   []string         // what the user should know of how the flags were read
}

// recordedEach is the time between two ticks of a recording: nothing finer was recorded.
const recordedEach = measure.Second

// span reads the flags.
func (w *past) span(now time.Time) (span, error) {
	var s span
	read := func(flag, text string) (measure.Time, error) {
		t, said, err := parseMoment(text, now)
		if err != nil {
			return 0, usagef("--%s %q: %w", flag, text, err)
		}
		if said != "" {
			s.said = append(s.said, "--"+flag+" "+text+" is taken as "+said)
		}
		return measure.Time(t.Unix()) * measure.Time(measure.Second), nil
	}
	var err error
	switch {
	case w.at != "" && (w.from != "" || w.to != ""):
		return s, usagef(
			"--at and --from or --to exclude each other: --at is one interval, --from and --to are the ends of a time",
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
			"--from %s is after --to %s: %s and %s", w.from, w.to, moment(s.over.Start),
			moment(s.over.End),
		)
	case s.over.Start == s.over.End:
		return s, usagef(
			"no time lies between --from %s and --to %s; --at shows the interval that ended then",
			w.from, w.to,
		)
	}
	return s, nil
}

var agoForm = regexp.MustCompile(
	`^-(?:(\d{1,5})d)?((?:\d+(?:\.\d+)?(?:h|m|s|ms))*)$`,
) // table: made once, never changed

// parseMoment reads a time that has passed. said tells how a time without a day was read when that
// is not today.
func parseMoment(text string, now time.Time) (t time.Time, said string, err error) {
	const hint = "write 14:03:22, '2026-11-21 14:03:22', 2026-11-21T14:03:22Z, -5m, -90s, -2d or now"
	text = strings.TrimSpace(text)
	switch {
	case text == "now":
		return now, "", nil
	case strings.HasPrefix(text, "-"):
		m := agoForm.FindStringSubmatch(text)
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
	for _, form := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
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

// moment gives a time as a person reads it here.
func moment(t measure.Time) string { return t.AsTime().Local().Format("2006-01-02 15:04:05") }

// edge is how far the newest tick may be behind now while a recording goes on.
const edge = 5 * measure.Second

// within fits a span to what is held, and says where that can't be.
func (s *span) within(held measure.Interval, remark string, now time.Time) error {
	if held == (measure.Interval{}) {
		return fmt.Errorf("nothing is recorded yet: a new server needs a few seconds")
	}
	holds := "held is " + moment(held.Start) + " to " + moment(held.End)
	if s.newest && measure.Time(now.UnixNano()).Sub(held.End) < edge {
		s.over.End = held.End
	}
	switch {
	case s.over.Start == 0 && s.over.End > held.End:
		if remark != "" {
			return usagef(
				"nothing was recorded at %s: no server runs; %s", moment(s.over.End), holds,
			)
		}
		return usagef("nothing was recorded at %s; %s", moment(s.over.End), holds)
	case s.over.Start >= held.End:
		return usagef("nothing was recorded since %s; %s", moment(s.over.Start), holds)
	case s.over.End <= held.Start:
		return usagef("nothing was recorded before %s; %s", moment(held.Start), holds)
	}
	return nil
}

// steps checks that the intervals of a look into the past are ones that were recorded.
func steps(step measure.Span) error {
	if step < recordedEach || step%recordedEach != 0 {
		return usagef("interval %v: recorded times need a whole number of seconds", step)
	}
	return nil
}

// replay is the machine of a time that has passed.
type replay struct {
	Machine
	span
	recorded Recorded
}

func (r *replay) close() { _ = r.recorded.Close() } // it was only read

// replay opens what was recorded, and gives the machine of the time that the flags name; --at is
// the end of so much of it. The caller closes it.
func (p Program) replay(w *past, look Look, at measure.Span) (*replay, error) {
	now := time.Now()
	if look.SinceBoot {
		return nil, usagef("--since-boot excludes --from and --at")
	}
	s, err := w.span(now)
	if err != nil {
		return nil, err
	}
	if p.Recorded == nil {
		return nil, fmt.Errorf("read the recording: %w", measure.ErrUnsupported)
	}
	where, err := w.where()
	if err != nil {
		return nil, err
	}
	r, err := p.Recorded(where)
	if err != nil {
		return nil, err
	}
	if err := s.within(r.Held(), r.Remark(), now); err != nil {
		if t := r.Trouble(); len(t) > 0 {
			err = fmt.Errorf("%w; %s", err, andMore(t))
		}
		_ = r.Close()
		return nil, err
	}
	if s.over.Start == 0 {
		s.over.Start = s.over.End.Add(-at)
	}
	if end := s.over.End.AsTime().Local(); len(s.said) == 0 &&
		end.Format(time.DateOnly) != now.Local().Format(time.DateOnly) {
		s.said = append(s.said, "this is of "+moment(s.over.End))
	}
	if w.server != "" {
		s.said = append(s.said, "this is of the server at "+bare(w.server))
	}
	if r.Remark() != "" {
		s.said = append(s.said, r.Remark())
	}
	if t := r.Trouble(); len(t) > 0 {
		s.said = append(s.said, andMore(t))
	}
	if err := checkNetns(r, s.over, look.Netns); err != nil {
		_ = r.Close()
		return nil, err
	}
	return &replay{r.Replay(s.over, look.Netns), s, r}, nil
}

// andMore gives the first of some sentences, and how many there are beside it.
func andMore(all []string) string {
	if len(all) == 1 {
		return all[0]
	}
	return fmt.Sprintf("%s (and %d more)", all[0], len(all)-1)
}

// checkNetns says that a network namespace was not there in the time.
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
		return err // in a gap nothing is known of it
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

// tell says each sentence on its own line.
func tell(out io.Writer, said []string) {
	for _, line := range said {
		fmt.Fprintln(out, "note:", view.Clean(line))
	}
}

// isGap says whether a tick of the past is one of time in which nothing was recorded.
func isGap(t *measure.Tick) bool {
	for _, a := range t.Answers {
		if len(a.Elapsed) > 0 && a.Elapsed[0] > 0 {
			return false
		}
	}
	return t.Over.Span() > 0
}
