package measure

import "time"

// Time is a moment: nanoseconds since the Unix epoch, UTC. Zero means "not set".
type Time int64

// Span is an elapsed time in nanoseconds.
type Span int64

// Common spans.
const (
	Microsecond Span = 1e3
	Millisecond Span = 1e6
	Second      Span = 1e9
	Minute           = 60 * Second
)

// AsTime gives t as the standard library's time, in UTC.
func (t Time) AsTime() time.Time { return time.Unix(0, int64(t)).UTC() }

// Add gives the moment s after t.
func (t Time) Add(s Span) Time { return t + Time(s) }

// Sub gives the span from u to t; negative when u is later.
func (t Time) Sub(u Time) Span { return Span(t - u) }

// String gives RFC 3339 with nanoseconds, UTC.
func (t Time) String() string { return t.AsTime().Format("2006-01-02T15:04:05.000000000Z") }

// MarshalText gives the same form as String, so that JSON shows times as RFC 3339.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads RFC 3339, with or without fractions of a second.
func (t *Time) UnmarshalText(b []byte) error {
	v, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return err
	}
	*t = Time(v.UnixNano())
	return nil
}

// Seconds gives s in seconds.
func (s Span) Seconds() float64 { return float64(s) / 1e9 }

// AsDuration gives s as the standard library's duration.
func (s Span) AsDuration() time.Duration { return time.Duration(s) }

// String gives the standard library's notation: 1.5s, 20ms.
func (s Span) String() string { return time.Duration(s).String() }

// Interval is the measured time from Start (exclusive) to End (inclusive). End comes from the wall clock; the length comes
// from the monotonic clock, so a clock that was set in between moves Start and never the length.
type Interval struct{ Start, End Time }

// Span gives the length; never negative for intervals made by culprit.
func (i Interval) Span() Span { return i.End.Sub(i.Start) }

// Seconds gives the length in seconds, the divisor of every rate.
func (i Interval) Seconds() float64 { return i.Span().Seconds() }
