package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/profile"
)

// mostRecorded is how much time a profile of recorded samples may be of.
const mostRecorded = 7 * 24 * 60 * measure.Minute

// stretchOf reads the name of what was recorded in a stretch of time: its ends in milliseconds since the epoch, 1763812800000..1763812860000.
func stretchOf(name string) (over measure.Interval, ok bool) {
	first, last, ok := strings.Cut(name, "..")
	from, err := strconv.ParseUint(first, 10, 43)
	to, err2 := strconv.ParseUint(last, 10, 43)
	if !ok || err != nil || err2 != nil || from >= to {
		return measure.Interval{}, false
	}
	return measure.Interval{Start: measure.Time(from) * 1e6, End: measure.Time(to) * 1e6}, true
}

// treeOf gives the profile of a name: one on the shelf, or of what was recorded in a stretch of time.
func (s *Server) treeOf(ctx context.Context, name string) (*profile.Tree, error) {
	over, ok := stretchOf(name)
	if !ok {
		p, err := s.shelf.get(name)
		if err != nil {
			return nil, err
		}
		return p.tree()
	}
	if over.Span() > mostRecorded {
		return nil, &fault{status: http.StatusRequestEntityTooLarge, Code: "too-large", Message: "a profile of more than a week", Hint: "ask for less time"}
	}
	// Idle CPUs too: the page leaves them out, and says how much that is.
	got, err := profile.AskRecorded(ctx, s.Machine, profile.Part{Over: over, Idle: true})
	if err != nil {
		return nil, err
	}
	t := got.Tree
	if t.Len() > mostNodes {
		return nil, tooLargef("the profile has %d calls, more than %d", t.Len(), mostNodes)
	}
	if got.Samples < 0.9*got.Expected && got.Expected > 20 {
		t.Notes = append(t.Notes, fmt.Sprintf("%.0f samples came of %.0f that were due", got.Samples, got.Expected))
	}
	for _, l := range got.Loss {
		t.Notes = append(t.Notes, fmt.Sprintf("lost: %s (%d)", l.Reason, l.Events))
	}
	return t, nil
}
