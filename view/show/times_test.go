package show

import (
	"strings"
	"testing"
	"time"

	"culprit/heapbound"
)

func TestMomentsAreRead(t *testing.T) {
	now := time.Date(2026, 11, 21, 14, 30, 0, 0, time.Local)
	at := func(month time.Month, day, hour, minute, second int) time.Time {
		return time.Date(2026, month, day, hour, minute, second, 0, time.Local)
	}
	for text, want := range map[string]time.Time{
		"now":                         now,
		"-5m":                         at(11, 21, 14, 25, 0),
		"-90s":                        at(11, 21, 14, 28, 30),
		"10 minutes ago":              at(11, 21, 14, 20, 0),
		"an hour ago":                 at(11, 21, 13, 30, 0),
		"2 days ago":                  now.Add(-48 * time.Hour),
		"-1h30m":                      at(11, 21, 13, 0, 0),
		"-0s":                         now,
		"14:03:22":                    at(11, 21, 14, 3, 22),
		"14:30":                       now,
		"14:30:01":                    at(11, 20, 14, 30, 1), // yesterday
		"23:59":                       at(11, 20, 23, 59, 0),
		"2026-11-21 14:03:22":         at(11, 21, 14, 3, 22),
		"2026-11-21T14:03":            at(11, 21, 14, 3, 0),
		"2026-11-20":                  at(11, 20, 0, 0, 0),
		" 2026-11-20 06:07 ":          at(11, 20, 6, 7, 0),
		"2026-11-20T10:00:00Z":        time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC),
		"2026-11-20T10:00:00.5+02:00": time.Date(2026, 11, 20, 8, 0, 0, 5e8, time.UTC),
		now.Add(-time.Second).Format(time.RFC3339): now.Add(-time.Second),
		"-1d":   now.Add(-24 * time.Hour),
		"-2d1h": now.Add(-49 * time.Hour),
	} {
		got, said, err := ParseTime(text, now)
		if err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
		if yesterday := text == "14:30:01" || text == "23:59"; yesterday != strings.HasPrefix(
			said, "yesterday, 2026-11-20 ",
		) {
			t.Errorf("%q: said %q", text, said)
		}
	}
	for text, want := range map[string]string{
		"": "not a time; write 14:03:22", "soon": "not a time", "5m": "not a time", "-": "not a time", "-5": "not a time", "-5x": "not a time", "25:00": "not a time", "+5m": "not a time",
		"2026-13-01": "not a time", "-d": "not a time", "2026-11-21 14:30:01": "in the future: it is 2026-11-21 14:30:00 now", "2027-01-01": "in the future",
		"1969-12-31": "before 1970", "-99999d": "before 1970", "-999999h": "before 1970", "-9999999h": "not a time", "0001-01-01T00:00:00Z": "before 1970",
		"-99999999999999999999h": "not a time",
		"10 weeks ago":           "not a time", "999999999 days ago": "not a time", "ago": "not a time",
	} {
		if got, _, err := ParseTime(text, now); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzMoment(f *testing.F) {
	for _, s := range []string{"now", "-5m", "10 minutes ago", "-1d2h3.5s", "14:03:22", "2026-11-21 14:03:22", "2026-11-21T14:03:22.5+02:00", "-2562047h", "9999-12-31"} {
		f.Add(s, int64(1795271400))
	}
	heapbound.Fuzz(f, func(t *testing.T, text string, unix int64) {
		now := time.Unix(unix&(1<<33-1), 0) // 1970 to 2242
		got, said, err := ParseTime(text, now)
		if err != nil {
			return
		}
		if got.After(now) || got.Unix() < 0 {
			t.Errorf("%q at %v: %v", text, now, got)
		}
		if said != "" && now.Sub(got) > 26*time.Hour {
			t.Errorf("%q at %v: %v is said to be %s", text, now, got, said)
		}
	})
}
