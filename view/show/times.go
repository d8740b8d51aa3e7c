package show

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"culprit/measure"
)

// When selects a time range by texts. At is one interval; From and To are the ends of a range.
type When struct {
	From, To, At     string
	FromName, ToName string // in messages; "": from and to
	AtName           string // "": at
}

// IsSet reports whether a time is given.
func (w *When) IsSet() bool { return w.From != "" || w.To != "" || w.At != "" }

// TimeFormats lists the formats of a time, for help.
const TimeFormats = "14:03:22, '2026-11-21 14:03:22', RFC 3339, -5m, now"

// TimeRange is a selected time range.
type TimeRange struct {
	Over   measure.Interval // Start 0: the interval that ends at End
	newest bool             // it ends now, with the newest tick
	Notes  []string         // how the texts were interpreted
}

// RecordedStep is the time between two recorded ticks.
const RecordedStep = measure.Second

// Parse parses the texts. The error is a UsageError. now is the current time.
func (w *When) Parse(now time.Time) (TimeRange, error) {
	var s TimeRange
	at, from, to := cmp.Or(w.AtName, "at"), cmp.Or(w.FromName, "from"), cmp.Or(w.ToName, "to")
	read := func(flag, text string) (measure.Time, error) {
		t, said, err := ParseTime(text, now)
		if err != nil {
			return 0, Usagef("%s %q: %w", flag, text, err)
		}
		if said != "" {
			s.Notes = append(s.Notes, flag+" "+text+" is taken as "+said)
		}
		return measure.Time(t.Unix()) * measure.Time(measure.Second), nil
	}
	var err error
	switch {
	case w.At != "" && (w.From != "" || w.To != ""):
		return s, Usagef(
			"%s and %s or %s exclude each other: %s is one interval, "+
				"%s and %s are the ends of a time",
			at, from, to, at, from, to,
		)
	case w.At != "":
		s.Over.End, err = read(at, w.At)
		s.newest = strings.TrimSpace(w.At) == "now"
		return s, err
	case w.From == "":
		return s, Usagef("%s needs %s; %s shows the interval that ended at a time", to, from, at)
	}
	if s.Over.Start, err = read(from, w.From); err != nil {
		return s, err
	}
	last := cmp.Or(w.To, "now")
	s.newest = strings.TrimSpace(last) == "now"
	if s.Over.End, err = read(to, last); err != nil {
		return s, err
	}
	switch {
	case s.Over.Start > s.Over.End:
		return s, Usagef(
			"%s %s is after %s %s: %s and %s", from, w.From, to, last, FormatTime(s.Over.Start),
			FormatTime(s.Over.End),
		)
	case s.Over.Start == s.Over.End:
		return s, Usagef(
			"no time lies between %s %s and %s %s; %s shows the interval that ended then",
			from, w.From, to, last, at,
		)
	}
	return s, nil
}

var agoPattern = regexp.MustCompile(
	`^-(?:(\d{1,5})d)?((?:\d+(?:\.\d+)?(?:h|m|s|ms))*)$`,
) // table: made once, never changed

// wordsAgo matches "10 minutes ago", as date(1) reads it.
var wordsAgo = regexp.MustCompile(
	`^(\d{1,9}|an?)\s+(second|sec|minute|min|hour|day)s?\s+ago$`,
) // table: made once, never changed

// shortAgo returns a time such as "10 minutes ago" in its short form, -10m. Other texts are
// returned as they are.
func shortAgo(text string) string {
	m := wordsAgo.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	return "-" + strings.NewReplacer("an", "1", "a", "1").Replace(m[1]) + m[2][:1]
}

// ParseTime parses a time in the past. A time of day without a date is today's or yesterday's; said
// describes it in the second case. The error says how to write a time.
func ParseTime(text string, now time.Time) (t time.Time, said string, err error) {
	const hint = "write 14:03:22, '2026-11-21 14:03:22', 2026-11-21T14:03:22Z, -5m, -90s, -2d " +
		"or now"
	text = shortAgo(strings.TrimSpace(text))
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

// FormatTime formats a time in the local time zone.
func FormatTime(t measure.Time) string { return t.AsTime().Local().Format("2006-01-02 15:04:05") }

// maxTickAge is the maximum age of the newest tick of a running recording.
const maxTickAge = 5 * measure.Second

// Within adjusts "now" to the newest recorded tick if that is not older than age. It fails if
// nothing was recorded in the range.
func (s *TimeRange) Within(
	held measure.Interval, remark string, age measure.Span, now time.Time,
) error {
	if held == (measure.Interval{}) {
		return errors.New("nothing is recorded yet: a new server needs a few seconds")
	}
	holds := "held is " + FormatTime(held.Start) + " to " + FormatTime(held.End)
	if s.newest && measure.Time(now.UnixNano()).Sub(held.End) < age {
		s.Over.End = held.End
	}
	switch {
	case s.Over.Start == 0 && s.Over.End > held.End:
		if remark != "" {
			return Usagef(
				"nothing was recorded at %s: no server runs; %s", FormatTime(s.Over.End), holds,
			)
		}
		return Usagef("nothing was recorded at %s; %s", FormatTime(s.Over.End), holds)
	case s.Over.Start >= held.End:
		return Usagef("nothing was recorded since %s; %s", FormatTime(s.Over.Start), holds)
	case s.Over.End <= held.Start:
		return Usagef("nothing was recorded before %s; %s", FormatTime(held.Start), holds)
	}
	return nil
}

// CheckRecordedStep fails unless the interval is a multiple of RecordedStep.
func CheckRecordedStep(step measure.Span) error {
	if step < RecordedStep || step%RecordedStep != 0 {
		return Usagef("interval %v: recorded times need a whole number of seconds", step)
	}
	return nil
}
