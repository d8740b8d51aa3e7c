package limits

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
)

// ephemeralPorts returns the limit of connections from one address to one destination: the local
// ports that the kernel chooses from.
func ephemeralPorts() Kind {
	return Kind{
		id:    "ports",
		used:  Source{query: facts.PortsUsed},
		sizes: []Source{{query: facts.PortsLimit}},
		owner: []string{"netns", "local", "peer", "peerport"},
		culprit: func(r *diagnose.Row) diagnose.Culprit {
			return diagnose.Culprit{Kind: "peer", Name: destination(r), NetNS: r.Word("netns"),
				Local: facts.PlainAddress(r.Word("local")),
				Peer:  facts.PlainAddress(r.Word("peer"))}
		},
		verify: func(r *diagnose.Row) string {
			return phrase.InNamespace(r.Word("netns"), fmt.Sprintf("ss -tanH dst %s dport = %s | "+
				"awk '{print $1}' | sort | uniq -c", phrase.Shell(r.Word("peer")),
				phrase.Shell(r.Word("peerport"))))
		},
		errors: errors{failed: func(_ *diagnose.Look, _, call *diagnose.Row) bool {
			return call.Word("error") == "EADDRNOTAVAIL" &&
				strings.HasPrefix(call.Word("syscall"), "connect")
		}},
		words: words{things: "local ports", amount: phrase.Count,
			next: "the next connection fails with EADDRNOTAVAIL",
			name: func(r *diagnose.Row) string {
				from := phrase.Clean(facts.PlainAddress(r.Word("local")))
				if from == "" {
					from = "an unknown address"
				}
				return fmt.Sprintf("The path from %s to %s%s", from,
					phrase.Clean(destination(r)), phrase.NamespaceSuffix(r.Word("netns")))
			}},
		more: portEvidence,
	}
}

// destination returns the address and port of a destination.
func destination(r *diagnose.Row) string {
	peer := facts.PlainAddress(r.Word("peer"))
	if strings.Contains(peer, ":") {
		peer = "[" + peer + "]"
	}
	return peer + ":" + r.Word("peerport")
}

// portEvidence adds the ports that closed connections hold, and a fix: ports of closed connections
// can be used again, and others need a wider range.
func portEvidence(l *diagnose.Look, f *diagnose.Finding, u *use) {
	netns := u.owner.Word("netns")
	t := l.Table(facts.PortsWaiting)
	waiting := u.kind.rowOf(l, Source{query: facts.PortsWaiting}, u.owner)
	if v := waiting.Last(); v > 0 {
		f.AddEvidence(t, u.near, waiting.Query(), v, t.Unit, fmt.Sprintf(
			"%s of them belong to closed connections in TIME-WAIT", phrase.Count(v)))
		if v >= u.used/2 {
			f.Fix = &diagnose.Fix{
				Command: phrase.InNamespace(netns, "sysctl -w net.ipv4.tcp_tw_reuse=1"),
				Undo:    phrase.InNamespace(netns, "sysctl -w net.ipv4.tcp_tw_reuse=2"),
				Risk: "low: needs TCP timestamps at both ends; the cause is a program that opens " +
					"a connection per request"}
			return
		}
	}
	if now := u.sizes[0].Word("range"); now != "" && strings.Contains(now, "-") {
		first, last, _ := strings.Cut(now, "-")
		f.Fix = &diagnose.Fix{
			Command: phrase.InNamespace(netns,
				`sysctl -w net.ipv4.ip_local_port_range="1024 65535"`),
			Undo: phrase.InNamespace(netns, fmt.Sprintf(
				`sysctl -w net.ipv4.ip_local_port_range="%s %s"`, phrase.Clean(first),
				phrase.Clean(last))),
			Risk: "medium: reserve the ports of servers in that range first " +
				"(net.ipv4.ip_local_reserved_ports)"}
	}
}

// timeWaits returns the limit of closed connections that the kernel remembers.
func timeWaits() Kind {
	return Kind{
		id:    "time-wait",
		used:  Source{facts.CacheEntries, []string{"cache", "tcp-timewait"}},
		sizes: []Source{{query: facts.CacheLimit}},
		owner: []string{"netns", "cache"},
		culprit: func(r *diagnose.Row) diagnose.Culprit {
			return diagnose.Culprit{Kind: "table", Name: r.Word("cache"), NetNS: r.Word("netns")}
		},
		verify: func(r *diagnose.Row) string {
			return phrase.InNamespace(r.Word("netns"), "nstat -az TcpExtTCPTimeWaitOverflow; "+
				"cat /proc/net/sockstat /proc/sys/net/ipv4/tcp_max_tw_buckets")
		},
		fix: func(r *diagnose.Row, size float64) *diagnose.Fix {
			set := func(n float64) string {
				return phrase.InNamespace(r.Word("netns"),
					fmt.Sprintf("sysctl -w net.ipv4.tcp_max_tw_buckets=%.0f", n))
			}
			return &diagnose.Fix{Command: set(2 * size), Undo: set(size),
				Risk: "low: each takes 300 bytes"}
		},
		errors: errors{mild: true, counters: []Source{{facts.ProtocolEvents,
			[]string{"protocol", "TcpExt", "counter", "TCPTimeWaitOverflow"}}}},
		words: words{things: "connections in TIME-WAIT", amount: phrase.Count,
			next:    "each closed connection skips TIME-WAIT",
			refused: "closed connections per second skip TIME-WAIT",
			name: func(r *diagnose.Row) string {
				return "The machine" + phrase.NamespaceSuffix(r.Word("netns"))
			}},
	}
}
