package facts

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
)

// SameProgram reports whether a finding is about processes with the name of the accused one.
func SameProgram(f, o *diagnose.Finding) bool {
	return o.Culprit.Kind == "process" && o.Culprit.Name == f.Culprit.Name
}

// AddWaits adds how long the first programs wait for a CPU. The table is process.runwait.
func AddWaits(f *diagnose.Finding, t *diagnose.Table, s diagnose.Period, programs []Program) {
	for i, p := range programs {
		if i == mostNames {
			break
		}
		f.AddEvidence(t, s, p.Query(t), p.Rate, t.Unit, fmt.Sprintf(
			"%s tasks of %s wait for a CPU at any moment", phrase.Digits(p.Rate), p))
	}
}

// WaitsForRequests reports whether a thread that sleeps in a kernel function waits for requests:
// accept, epoll, poll, select, recvfrom of datagrams, io_uring. Names are those of Linux 3.10 to
// 6.18.
func WaitsForRequests(function string) bool {
	for _, prefix := range []string{"inet_csk_accept", "inet_csk_wait", "unix_accept",
		"__skb_wait_for", "ep_poll", "do_epoll_wait", "poll_schedule", "do_poll", "do_sys_poll",
		"do_select", "core_sys_select", "io_cqring_wait"} {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}
