package captured

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/kernelmessage"
)

// logged judges the messages of the kernel's log: a finding for each event and name.
func (s *study) logged() {
	all := kernelmessage.Messages()
	for _, t := range s.of(Log) {
		s.shown["log"] = true
		names, by := group(t.Rows, "event")
		slices.SortStableFunc(names, func(a, b string) int {
			return cmp.Compare(eventAt(all, a), eventAt(all, b))
		})
		for _, event := range names {
			if at := eventAt(all, event); at < len(all) {
				s.loggedEvent(&all[at], by[event])
			}
		}
		if len(names) == 1 && names[0] == "" {
			s.clear("log", "no message of a failure (%s)", t.Rows[0].Place())
		}
	}
}

// eventAt returns the place of the message of an event; len(all): there is none.
func eventAt(all []kernelmessage.Message, event string) int {
	if i := slices.IndexFunc(all, func(m kernelmessage.Message) bool {
		return m.Event == event
	}); i >= 0 {
		return i
	}
	return len(all)
}

// mostNames bounds the findings of one event.
const mostNames = 5

func (s *study) loggedEvent(m *kernelmessage.Message, rows []*Row) {
	names, by := group(rows, "name")
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(len(by[b]), len(by[a]))
	})
	for i, name := range names {
		list := by[name]
		if i >= mostNames || len(list) < m.Least {
			break
		}
		last := list[len(list)-1]
		times := "once"
		if n := len(list); n > 1 {
			times = fmt.Sprintf("%d times", n)
		}
		claim := m.Sentence(cmp.Or(name, "a program"), last.Word("detail"), times)
		id := strings.ReplaceAll(m.Event, " ", "-")
		if name != "" {
			id += "-" + name
		}
		f := s.find(m.Rule, id, m.Severity, 0.8, diagnose.Culprit{Kind: m.Kind,
			Name: cmp.Or(name, "this machine")}, claim)
		evidence(f, list[0], float64(len(list)), "event", "%s %s", list[0].Word("time"),
			list[0].Word("text"))
		if last != list[0] {
			evidence(f, last, float64(len(list)), "event", "last: %s %s", last.Word("time"),
				last.Word("text"))
		}
		caveat(f, "The log shows that it happened, and not that it goes on.")
		f.Verify = "dmesg -T | tail -50"
	}
}
