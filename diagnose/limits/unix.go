package limits

import (
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
)

// unixBacklogs returns the limit of connections to an AF_UNIX socket that wait to be accepted.
// Clients wait in connect(2) when it is reached.
func unixBacklogs() Kind {
	return Kind{
		id:    "unix-backlog",
		used:  Source{query: facts.UnixQueue},
		sizes: []Source{{query: facts.UnixLimit}},
		limit: func(backlog float64) float64 { return backlog + 1 },
		owner: []string{"netns", "path"},
		culprit: func(r *diagnose.Row) diagnose.Culprit {
			return diagnose.Culprit{Kind: "socket", Name: r.Word("path"), NetNS: r.Word("netns")}
		},
		verify: func(r *diagnose.Row) string {
			path := strings.TrimPrefix(r.Word("path"), "@")
			return phrase.InNamespace(r.Word("netns"), "ss -xlp | grep -F -e "+phrase.Shell(path))
		},
		errors: errors{blocks: true, failed: func(_ *diagnose.Look, _, call *diagnose.Row) bool {
			return call.Word("error") == "EAGAIN" && call.Word("syscall") == "connect"
		}},
		words: words{things: "places in its accept queue", amount: phrase.Count,
			next: "its server does not accept, and clients wait in connect or get EAGAIN",
			name: func(r *diagnose.Row) string {
				return "Socket " + phrase.DeviceName(r.Word("netns"), r.Word("path"))
			}},
	}
}
