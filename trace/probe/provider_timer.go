package probe

import (
	"fmt"
	"slices"
	"strings"

	"culprit/kernel/proc"
	"culprit/lang/check"
	"culprit/measure"
)

func dtraceProvider() *provider {
	names := []string{"BEGIN", "END", "ERROR"}
	return &provider{
		name: "dtrace", first: 1, last: 3,
		list: func(_ *Env, _ *want, yield func(*found)) error {
			for i, name := range names {
				yield(
					&found{
						Listed: Listed{ID: uint32(i + 1), Provider: "dtrace", Name: name},
						site:   check.SiteRun,
					},
				)
			}
			return nil
		},
	}
}

// standing returns the timers that are always listed, as in dtrace.
func standing() []string {
	return []string{
		"profile-97",
		"profile-199",
		"profile-499",
		"profile-997",
		"profile-1999",
		"profile-4001",
		"profile-4999",
		"tick-1",
		"tick-10",
		"tick-100",
		"tick-500",
		"tick-1000",
		"tick-5000",
	}
}

// madeTimers is the number of the first timer that exists because it was named. There may be a
// thousand.
const madeTimers = 1000

func profileProvider() *provider {
	return &provider{
		name: "profile", first: 10, last: madeTimers + 999,
		list: func(e *Env, _ *want, yield func(*found)) error {
			for i, name := range standing() {
				f, err := timer(name)
				if err != nil {
					return err // not one of our own
				}
				f.ID = uint32(10 + i)
				yield(f)
			}
			for name, id := range e.timers {
				if f, err := timer(name); err == nil {
					f.ID = id
					yield(f)
				}
			}
			return nil
		},
		make: func(e *Env, name string) (*found, error) {
			f, err := timer(name)
			if f == nil || err != nil {
				return nil, err
			}
			if i := slices.Index(standing(), name); i >= 0 {
				f.ID = uint32(10 + i)
				return f, nil
			}
			id, ok := e.timers[name]
			if !ok {
				if id = madeTimers + uint32(len(e.timers)); id > madeTimers+999 {
					return nil, fmt.Errorf("%s is one timer too many: there can be 1000", name)
				}
				e.timers[name] = id
			}
			f.ID = id
			return f, nil
		},
		args: nil,
	}
}

// table: the units of timers in ns, without hz.
var timerUnits = map[string]int64{
	"ns": 1, "nsec": 1, "us": 1e3, "usec": 1e3, "ms": 1e6, "msec": 1e6, "s": 1e9, "sec": 1e9,
	"m": 60e9, "min": 60e9, "h": 3600e9, "hour": 3600e9, "d": 86400e9, "day": 86400e9,
}

// The limits of timers: the kernel's minimum (kernel/events/core.c: perf_swevent_init_hrtimer) and
// the nanoseconds that 63 bits can count.
const (
	leastInterval = 10_000
	mostInterval  = 1<<63 - 1
)

// timer returns the probe profile-N or tick-N: N is an interval with a unit, or else firings per
// second. It returns nil for a name that is not a timer's.
func timer(name string) (*found, error) {
	kind, rest, ok := strings.Cut(name, "-")
	if !ok || kind != "profile" && kind != "tick" {
		return nil, nil
	}
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	if digits == 0 {
		return nil, fmt.Errorf(
			"%s: a rate or an interval must follow the -: %s-97 or %s-10s", name, kind, kind,
		)
	}
	n, err := proc.ParseUint([]byte(rest[:digits]))
	if err != nil || n > mostInterval {
		return nil, fmt.Errorf("%s: %s is too large a number", name, rest[:digits])
	}
	if n == 0 {
		return nil, fmt.Errorf("%s: 0 is not possible", name)
	}
	every := int64(0)
	switch unit := strings.ToLower(rest[digits:]); unit {
	case "", "hz":
		every = 1e9 / int64(n)
	default:
		scale, ok := timerUnits[unit]
		if !ok {
			return nil, fmt.Errorf("%s: there is no unit %s (ns us ms s m h d hz)", name, unit)
		}
		if int64(n) > mostInterval/scale {
			return nil, fmt.Errorf("%s: longer than 292 years", name)
		}
		every = int64(n) * scale
	}
	if every < leastInterval {
		return nil, fmt.Errorf("%s: the kernel's timers fire at most once in 10 us", name)
	}
	site := check.SiteRun
	if kind == "profile" {
		site = check.SitePerfEvent
	}
	return &found{
		Listed: Listed{Provider: "profile", Name: name},
		site:   site,
		every:  measure.Span(every),
	}, nil
}
