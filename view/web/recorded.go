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

// recordedColumns replies with the profile of the samples that were recorded in a time range.
func (s *profiles) recordedColumns(w http.ResponseWriter, r *http.Request, id string) error {
	ctx, release, err := s.acquireReading(r.Context())
	if err != nil {
		return err
	}
	defer release()
	t, err := s.tree(ctx, id)
	if err != nil {
		return err
	}
	b, err := profile.AppendColumns(nil, t)
	if err != nil {
		return err
	}
	return s.replies.send(w, r, profile.ColumnsType, b)
}

// parseRange parses the ID of recorded samples: a time range in milliseconds since the epoch, and
// optionally whose samples, as FIELD:VALUE. 1763812800000..1763812860000,pid:1234.
func parseRange(id string) (over measure.Interval, whose string, ok bool) {
	span, whose, some := strings.Cut(id, ",")
	first, last, ok := strings.Cut(span, "..")
	from, err := strconv.ParseUint(first, 10, 43)
	to, err2 := strconv.ParseUint(last, 10, 43)
	if !ok || err != nil || err2 != nil || from >= to || some && whose == "" {
		return measure.Interval{}, "", false
	}
	start, end := measure.Time(from)*1e6, measure.Time(to)*1e6
	return measure.Interval{Start: start, End: end}, whose, true
}

// selectThreads selects the samples of whose: pid:1234, process:nginx, cgroup:/system.slice; all
// of "".
func selectThreads(p *profile.Part, whose string) error {
	if whose == "" {
		return nil
	}
	field, value, _ := strings.Cut(whose, ":")
	switch {
	case value == "" || len(value) > maxName:
		return badRequest("%s: whose samples? pid:1234, process:nginx or cgroup:/system.slice",
			printable(whose))
	case field == "process":
		p.Names = []string{value}
	case field == "cgroup":
		p.Cgroups = []string{value}
	case field == "pid":
		pid, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return badRequest("pid: %s is no process ID", printable(value))
		}
		p.PIDs = []int{int(pid)}
	case field == "thread":
		f := badRequest("samples are not recorded by thread")
		f.Hint = "choose its process, or sample the thread now"
		return f
	default:
		return badRequest("%s is none of pid, process and cgroup", printable(field))
	}
	return nil
}

// tree returns the profile with an ID: a cached one, or that of samples recorded in a time range.
func (s *profiles) tree(ctx context.Context, id string) (*profile.Tree, error) {
	over, whose, ok := parseRange(id)
	if !ok {
		p, err := s.cache.get(id)
		if err != nil {
			return nil, err
		}
		return p.tree()
	}
	if over.Span() > maxRecorded {
		return nil, tooLarge("a profile of more than a week", "choose a shorter time")
	}
	// With idle CPUs: the page hides them, and shows their share.
	part := profile.Part{Over: over, Idle: true, Times: true}
	if err := selectThreads(&part, whose); err != nil {
		return nil, err
	}
	got, err := profile.AskRecorded(ctx, s.Machine, part)
	if err != nil {
		return nil, err
	}
	t := got.Tree
	if whose != "" && t.Sum() == 0 {
		return nil, notFound("no sample of "+printable(whose)+" was recorded in this time",
			"it did not run then, or its name and control group are not recorded")
	}
	if t.Len() > maxCalls {
		return nil, profileTooLarge("the profile has %d calls, more than %d", t.Len(), maxCalls)
	}
	if whose == "" && got.Samples < 0.9*got.Expected && got.Expected > 20 {
		t.Notes = append(t.Notes, fmt.Sprintf("%.0f samples of %.0f that were due",
			got.Samples, got.Expected))
	}
	for _, l := range got.Loss {
		t.Notes = append(t.Notes, fmt.Sprintf("lost: %s (%d)", l.Reason, l.Events))
	}
	return t, nil
}
