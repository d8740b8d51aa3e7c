package facts

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// UDPBothWays returns how many datagrams per second a network namespace sends and receives, over
// the whole range: a lookup sends in the second before it waits.
func UDPBothWays(l *diagnose.Look, netns string) (sent, received float64) {
	t := l.Table(ProtocolEvents)
	for _, protocol := range []string{"Udp", "Udp6"} {
		of := func(counter string) float64 {
			return series.Or(t.One("netns", netns, "protocol", protocol, "counter",
				counter).Mean(nil), 0)
		}
		sent += of("OutDatagrams")
		received += of("InDatagrams") + of("InErrors")
	}
	return sent, received
}

// DNSUnanswered reports whether most of what a namespace sends has no answer. A resolver that keeps
// its sockets has answers.
func DNSUnanswered(l *diagnose.Look, netns string) bool {
	sent, received := UDPBothWays(l, netns)
	return sent > 0 && received <= threshold.DNSAnswered*sent
}

// LookupsWait returns "3 lookups wait" or "1 lookup waits".
func LookupsWait(waiting float64) string {
	n := max(int(waiting+0.5), 1)
	if n == 1 {
		return "1 lookup waits"
	}
	return fmt.Sprintf("%d lookups wait", n)
}
