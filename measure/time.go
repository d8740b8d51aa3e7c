package measure

import "time"

// Time is a moment in nanoseconds since the Unix epoch, UTC. Zero means "not set".
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

// AsTime returns t as a time.Time in UTC.
func (t Time) AsTime() time.Time { return time.Unix(0, int64(t)).UTC() }

// Add returns the moment s after t.
func (t Time) Add(s Span) Time { return t + Time(s) }

// Sub returns the span from u to t; negative when u is later.
func (t Time) Sub(u Time) Span { return Span(t - u) }

// String returns t in RFC 3339 with nanoseconds, UTC.
func (t Time) String() string { return t.AsTime().Format("2006-01-02T15:04:05.000000000Z") }

// MarshalText returns the text of String, so that JSON contains RFC 3339. The error is always nil.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText parses RFC 3339, with or without fractions of a second. It returns the error of
// time.Parse.
func (t *Time) UnmarshalText(b []byte) error {
	v, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return err
	}
	*t = Time(v.UnixNano())
	return nil
}

// Seconds returns s in seconds.
func (s Span) Seconds() float64 { return float64(s) / 1e9 }

// AsDuration returns s as a time.Duration.
func (s Span) AsDuration() time.Duration { return time.Duration(s) }

// String returns the notation of time.Duration: 1.5s, 20ms.
func (s Span) String() string { return time.Duration(s).String() }

// Interval is the measured time from Start (exclusive) to End (inclusive). End comes from the wall
// clock, the length from the monotonic clock. When the wall clock is set within an interval, Start
// moves and the length stays correct.
type Interval struct{ Start, End Time }

// Span returns the length; never negative for intervals measured by culprit.
func (i Interval) Span() Span { return i.End.Sub(i.Start) }

// Seconds returns the length in seconds, the divisor of every rate.
func (i Interval) Seconds() float64 { return i.Span().Seconds() }
