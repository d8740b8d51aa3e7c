// Package show runs tools and diagnoses on a machine, now or in a recorded time range. The command
// line and the MCP server use it.
package show

import (
	"context"
	"errors"
	"fmt"

	"culprit/measure"
)

// Machine is what tools and diagnoses measure: this machine now, or a recording.
type Machine interface {
	measure.Watcher
	// Stats lists all statistics, sorted.
	Stats() []measure.Stat
	// Parse parses and checks a query. The error is a *measure.Diagnostic.
	Parse(query string) (measure.Query, error)
	// Record records the queries for n ticks and returns them as a reader. If the context ends
	// earlier, the reader has the ticks so far. progress is called after each tick; nil: not
	// called.
	Record(
		ctx context.Context, queries []measure.Query, n int, progress func(tick int),
	) (measure.Reader, error)
}

// UsageError is a mistake of the user.
type UsageError struct{ Cause error }

// Error returns the text of the cause.
func (e UsageError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.Cause }

// Usagef returns a UsageError with a text as of fmt.Errorf.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// ErrCountReached ends a Watch when enough was seen.
var ErrCountReached = errors.New("enough")

// DidYouMean returns the near name of all as the end of a message; "" if there is none.
func DidYouMean(word string, all []string) string {
	if near := measure.Nearest(word, all); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// IsGap reports whether nothing was recorded during a tick.
func IsGap(t *measure.Tick) bool {
	for _, a := range t.Answers {
		if len(a.Elapsed) > 0 && a.Elapsed[0] > 0 {
			return false
		}
	}
	return t.Over.Span() > 0
}
