package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/measure"
)

func droppedOf(f *diagnose.Finding) facts.DroppedPackets {
	d, _ := f.Subject.(facts.DroppedPackets)
	return d
}

// A drop is a row of Drops.
type drop struct {
	netns, device, protocol, port, reason, location string
	rate                                            float64
}

// of reports whether a packet was dropped where a finding is about.
func (d *drop) of(at facts.DroppedPackets) bool {
	datagram := d.protocol == "udp" || d.protocol == "udplite"
	beforeProtocols := d.device == at.Device && !isOfProtocol(d.reason)
	switch {
	case at.At == facts.DropsAtBacklog:
		return d.reason == "CPU_BACKLOG" ||
			!hasReason(d.reason) && strings.Contains(d.location, "backlog")
	case d.netns != at.NetNS:
		return false
	case at.At == facts.DropsAtInterface:
		return beforeProtocols
	case at.At == facts.DropsAtQueue:
		return beforeProtocols && (isOfQueue(d.reason) || !hasReason(d.reason))
	case at.At == facts.DropsAtSocket:
		return datagram && (isOfProtocol(d.reason) && d.reason != "NO_SOCKET" ||
			!hasReason(d.reason) && strings.Contains(d.location, "queue_rcv"))
	case at.At == facts.DropsAtPort:
		return datagram && (d.reason == "NO_SOCKET" ||
			!hasReason(d.reason) && strings.HasSuffix(d.location, "_rcv"))
	case at.At == facts.DropsOfTCP:
		return d.protocol == "tcp" && isLoss(d.reason)
	}
	return false
}

// A cause is why packets are dropped, and where.
type cause struct {
	reason, location string
	rate             float64
	ports            map[string]float64 // by protocol and port: "UDP port 53"
}

const (
	// mostCauses is the most causes that a finding lists.
	mostCauses = 3
	// leastCause is the share from which on a further cause is listed.
	leastCause = 0.05
	// mainPort is the share of a cause's packets from which on their port is named.
	mainPort = 0.5
	// leastLost is the share of the retransmits of a finding that packets dropped here must reach.
	leastLost = 0.1
)

// updateDrops adds why packets are dropped.
func updateDrops(f *diagnose.Finding, a *answer) string {
	at := droppedOf(f)
	causes, total := causesOf(a, at)
	if !(total > 0) {
		if at.At == facts.DropsOfTCP {
			return "the kernel here dropped no segments" + phrase.NamespaceSuffix(at.NetNS) +
				": they are lost on their way"
		}
		return "no packet was dropped there meanwhile"
	}
	if at.At == facts.DropsOfTCP && len(f.Evidence) > 0 &&
		total < leastLost*float64(f.Evidence[0].Value) {
		return fmt.Sprintf("the kernel here dropped %s segments/s only: most are lost on their way",
			phrase.Count(total))
	}
	first := ""
	for n, c := range causes {
		if n == mostCauses || n > 0 && c.rate < leastCause*total {
			break
		}
		text := fmt.Sprintf("%s of %s dropped packets/s: %s", phrase.Percent(c.rate/total),
			phrase.Count(total), c.text())
		if n == 0 {
			first = text
		}
		f.Evidence = append(f.Evidence, diagnose.Evidence{Text: text + " (measured)",
			Statistic: c.query(at), Value: diagnose.Number(c.rate), Unit: a.unit, Over: a.over,
			ComparedWith: diagnose.Number(total), ComparedAs: "all that are dropped there"})
	}
	if sentence := reasonSentences[causes[0].reason]; sentence != "" &&
		causes[0].rate >= mainPort*total && slices.Contains(f.Against, facts.DropsWithoutReason) {
		f.Against = slices.DeleteFunc(f.Against, func(caveat string) bool {
			return caveat == facts.DropsWithoutReason
		})
		f.Claim = strings.TrimSuffix(f.Claim, ".") + ": " + sentence + "."
	}
	return first
}

// causesOf returns why packets are dropped somewhere, the most frequent cause first, with the rate
// of all of them.
func causesOf(a *answer, at facts.DroppedPackets) (causes []*cause, total float64) {
	for _, r := range a.rows {
		w := r.words
		d := drop{w[0], w[1], w[2], w[3], w[4], w[5], r.value}
		if !d.of(at) {
			continue
		}
		total += d.rate
		n := slices.IndexFunc(causes, func(c *cause) bool {
			return c.reason == d.reason && c.location == d.location
		})
		if n < 0 {
			n = len(causes)
			causes = append(causes, &cause{reason: d.reason, location: d.location,
				ports: map[string]float64{}})
		}
		causes[n].rate += d.rate
		if d.port != "0" {
			causes[n].ports[strings.ToUpper(d.protocol)+" port "+d.port] += d.rate
		}
	}
	slices.SortFunc(causes, func(a, b *cause) int {
		return cmp.Or(cmp.Compare(b.rate, a.rate), strings.Compare(a.reason, b.reason),
			strings.Compare(a.location, b.location))
	})
	return causes, total
}

// text returns the cause in words: "no socket listens (NO_SOCKET in __udp4_lib_rcv), UDP port 53".
func (c *cause) text() string {
	reason, location := phrase.Clean(c.reason), phrase.Clean(c.location)
	text := fmt.Sprintf("%s in %s", reason, location)
	switch sentence := reasonSentences[c.reason]; {
	case !hasReason(c.reason):
		text = "in " + location
	case sentence != "":
		text = fmt.Sprintf("%s (%s in %s)", sentence, reason, location)
	}
	main, rate := "", 0.0
	for _, port := range slices.Sorted(maps.Keys(c.ports)) {
		if c.ports[port] > rate {
			main, rate = port, c.ports[port]
		}
	}
	switch {
	case rate >= c.rate*(1-leastCause):
		text += ", " + main
	case rate >= mainPort*c.rate:
		text += fmt.Sprintf(", %s of them %s", phrase.Percent(rate/c.rate), main)
	case len(c.ports) > 1:
		text += fmt.Sprintf(", %d ports", len(c.ports))
	}
	return text
}

// query returns a query of the packets that are dropped for a cause.
func (c *cause) query(at facts.DroppedPackets) string {
	equal := func(field, value string) measure.Term {
		return measure.Term{Field: field, Op: measure.Equal, Values: []string{value}}
	}
	q := measure.Query{Stat: "packet.drop.count", By: []string{"protocol", "port"}}
	if at.At != facts.DropsAtBacklog {
		q.Where = append(q.Where, equal("netns", at.NetNS))
	}
	if at.Device != "" {
		q.Where = append(q.Where, equal("device", at.Device))
	}
	q.Where = append(q.Where, equal("reason", c.reason), equal("location", c.location))
	return q.String()
}

// hasReason reports whether the kernel reports a reason.
func hasReason(reason string) bool { return reason != "unknown" && reason != "NOT_SPECIFIED" }

// isOfQueue reports whether a queue before an interface drops packets for a reason.
func isOfQueue(reason string) bool {
	for _, prefix := range []string{"QDISC_", "FQ_", "CAKE_", "DUALPI2_"} {
		if strings.HasPrefix(reason, prefix) {
			return true
		}
	}
	return reason == "TC_EGRESS"
}

// isOfProtocol reports whether a protocol or a socket drops packets for a reason, after the
// interface has passed them on.
func isOfProtocol(reason string) bool {
	for _, prefix := range []string{"NO_SOCKET", "SOCKET_", "TCP_", "UDP_", "ICMP_", "IP_", "IPV6",
		"PROTO_MEM", "NEIGH_", "NETFILTER_DROP", "XFRM_", "FRAG_", "DUP_FRAG", "SECURITY_HOOK",
		"QUEUE_PURGE", "PKT_TOO_BIG", "SKB_UCOPY"} {
		if strings.HasPrefix(reason, prefix) {
			return true
		}
	}
	return false
}

// isLoss reports whether a TCP segment that is dropped for a reason must be sent again. Most
// other reasons are of segments that arrived before, or of connections that have ended.
func isLoss(reason string) bool {
	switch reason {
	case "NETFILTER_DROP", "CPU_BACKLOG", "SOCKET_BACKLOG", "SOCKET_RCVBUFF", "PROTO_MEM",
		"TCP_LISTEN_OVERFLOW", "TCP_OFO_DROP", "TCP_OFO_QUEUE_PRUNE", "TCP_CSUM", "IP_CSUM",
		"SKB_CSUM", "IP_OUTNOROUTES", "IP_INNOROUTES", "IP_RPFILTER", "XDP", "TC_INGRESS",
		"FULL_RING", "NOMEM", "PFMEMALLOC", "DEV_READY", "BPF_CGROUP_EGRESS":
		return true
	}
	return isOfQueue(reason) || strings.HasPrefix(reason, "NEIGH_")
}
