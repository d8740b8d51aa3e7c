package bpftrace

import (
	"strconv"
	"strings"

	"culprit/lang/syntax"
	"culprit/lang/words"
)

// A site is the kind of probes of a clause: it decides what arg0, retval and args mean.
type site uint8

const (
	siteBegin site = iota
	siteTimer
	siteTracepoint
	siteRaw
	siteKprobe
	siteKretprobe
	siteFentry
	siteFexit
	siteUprobe
	siteUretprobe
	siteUSDT
	siteEvent
)

// filtered reports whether -p restricts the probes of a site to a process.
func (s site) filtered() bool { return s == siteUprobe || s == siteUretprobe || s == siteUSDT }

// ofFile reports whether a kind of probe names a file, whose path has slashes.
func ofFile(kind string) bool {
	p, ok := providers[kind]
	return ok && p.site.filtered()
}

// providers are the probes of bpftrace by their names and short names.
//
// table: name to the full name and the site
var providers = map[string]struct {
	name string
	site site
	form string
}{
	"BEGIN": {"BEGIN", siteBegin, "BEGIN"}, "END": {"END", siteBegin, "END"},
	"begin": {"BEGIN", siteBegin, "BEGIN"}, "end": {"END", siteBegin, "END"},
	"interval":      {"interval", siteTimer, "interval:s:1"},
	"i":             {"interval", siteTimer, "interval:s:1"},
	"profile":       {"profile", siteEvent, "profile:hz:99"},
	"p":             {"profile", siteEvent, "profile:hz:99"},
	"tracepoint":    {"tracepoint", siteTracepoint, "tracepoint:sched:sched_switch"},
	"t":             {"tracepoint", siteTracepoint, "tracepoint:sched:sched_switch"},
	"rawtracepoint": {"rawtracepoint", siteRaw, "rawtracepoint:sched_switch"},
	"rt":            {"rawtracepoint", siteRaw, "rawtracepoint:sched_switch"},
	"kprobe":        {"kprobe", siteKprobe, "kprobe:vfs_read"},
	"k":             {"kprobe", siteKprobe, "kprobe:vfs_read"},
	"kretprobe":     {"kretprobe", siteKretprobe, "kretprobe:vfs_read"},
	"kr":            {"kretprobe", siteKretprobe, "kretprobe:vfs_read"},
	"kfunc":         {"kfunc", siteFentry, "kfunc:vfs_read"},
	"fentry":        {"kfunc", siteFentry, "fentry:vfs_read"},
	"f":             {"kfunc", siteFentry, "fentry:vfs_read"},
	"kretfunc":      {"kretfunc", siteFexit, "kretfunc:vfs_read"},
	"fexit":         {"kretfunc", siteFexit, "fexit:vfs_read"},
	"fr":            {"kretfunc", siteFexit, "fexit:vfs_read"},
	"uprobe":        {"uprobe", siteUprobe, "uprobe:/bin/bash:readline"},
	"u":             {"uprobe", siteUprobe, "uprobe:/bin/bash:readline"},
	"uretprobe":     {"uretprobe", siteUretprobe, "uretprobe:/bin/bash:readline"},
	"ur":            {"uretprobe", siteUretprobe, "uretprobe:/bin/bash:readline"},
	"usdt":          {"usdt", siteUSDT, "usdt:/usr/lib/libc.so.6:libc:setjmp"},
	"U":             {"usdt", siteUSDT, "usdt:/usr/lib/libc.so.6:libc:setjmp"},
	"software":      {"software", siteEvent, "software:page-faults:100"},
	"s":             {"software", siteEvent, "software:page-faults:100"},
	"hardware":      {"hardware", siteEvent, "hardware:cache-misses:1000000"},
	"h":             {"hardware", siteEvent, "hardware:cache-misses:1000000"},
}

// unsupportedProbes are probes of bpftrace that culprit does not have, with what to write instead.
//
// table: name to hint
var unsupportedProbes = map[string]string{
	"watchpoint":      "trace the functions that write there: uprobe:PATH:FUNCTION",
	"w":               "trace the functions that write there: uprobe:PATH:FUNCTION",
	"asyncwatchpoint": "trace the functions that write there: uprobe:PATH:FUNCTION",
	"aw":              "trace the functions that write there: uprobe:PATH:FUNCTION",
	"iter":            "use culprit ps or culprit sockets to list tasks and sockets",
	"it":              "use culprit ps or culprit sockets to list tasks and sockets",
	"self":            "use interval:s:1, and end the program with Ctrl-C",
	"bench":           "use BEGIN",
	"test":            "use BEGIN",
}

func probeOf(at syntax.Span, provider, module, function, name string) *syntax.Probe {
	word := func(s string) syntax.Name { return syntax.Name{Span: at, Text: s} }
	return &syntax.Probe{
		Span: at, Provider: word(provider), Module: word(module), Function: word(function),
		Name: word(name), Parts: 4,
	}
}

// unknownProbe returns a message and a hint for a probe of a kind that bpftrace does not have, and
// "" for others.
func unknownProbe(parts []string) (message, hint string) {
	word := parts[0]
	if _, ok := providers[word]; ok {
		return "", ""
	}
	if _, ok := unsupportedProbes[word]; ok {
		return "", ""
	}
	if own := words.ProbeInBpftrace(strings.Join(parts, ":")); own != "" {
		return "unknown kind of probe " + shown(word), "in bpftrace it is " + own
	}
	hint = "write kprobe:" + word + ", tracepoint:" + word + " or another kind of probe"
	if strings.ContainsAny(word, "()=;@$") {
		hint = "write a probe before the statements: BEGIN { ... }"
	}
	return "unknown kind of probe " + shown(word), hint
}

// point returns the description of D for a point of bpftrace; nil after a mistake.
func (t *translator) point(p *Point) (*syntax.Probe, site) {
	word := p.Parts[0]
	if hint, ok := unsupportedProbes[word]; ok {
		t.fail(p.Span, Unsupported, hint, "%s probes are not supported", word)
		return nil, 0
	}
	kind := providers[word]
	d := t.described(p.Span, kind.name, p.Parts[1:])
	if d == nil {
		t.fail(p.Span, BadProbe, "write "+kind.form, "%s is not complete",
			shown(strings.Join(p.Parts, ":")))
	}
	return d, kind.site
}

// described returns the description of D for a kind of probe and the parts behind it; nil: the
// parts are not valid.
func (t *translator) described(at syntax.Span, kind string, parts []string) *syntax.Probe {
	if n := len(parts); n == 2 && parts[1] == "" && (kind == "software" || kind == "hardware") {
		parts = parts[:1]
	}
	for i, part := range parts {
		if part == "" && (i > 0 || kind != "usdt") {
			return nil
		}
	}
	switch n := len(parts); kind {
	case "BEGIN", "END":
		if n == 0 {
			return probeOf(at, "dtrace", "", "", kind)
		}
	case "interval":
		return timer(at, "tick-", parts)
	case "profile":
		return timer(at, "profile-", parts)
	case "tracepoint":
		if n == 2 {
			return probeOf(at, "tracepoint", parts[0], "", parts[1])
		}
	case "rawtracepoint":
		if n == 1 || n == 2 {
			return probeOf(at, "rawtp", "", "", parts[n-1])
		}
	case "kprobe", "kretprobe", "kfunc", "kretfunc":
		name := "entry"
		if strings.HasPrefix(kind, "kret") {
			name = "return"
		}
		if n == 0 || n > 2 {
			return nil
		}
		module := ""
		if n == 2 {
			module = parts[0]
		}
		function := parts[n-1]
		if strings.Contains(function, "+") {
			t.fail(at, Unsupported, "write kprobe:"+strings.SplitN(function, "+", 2)[0],
				"probes within functions of the kernel are not supported")
		}
		return probeOf(at, "fbt", module, function, name)
	case "uprobe", "uretprobe":
		if n == 3 { // uprobe:PATH:LANGUAGE:FUNCTION
			parts = []string{parts[0], parts[2]}
			n = 2
		}
		if n == 2 {
			return probeOf(at, kind, parts[0], parts[1], "")
		}
	case "usdt":
		switch n {
		case 2:
			return probeOf(at, "usdt", parts[0], "", parts[1])
		case 3:
			return probeOf(at, "usdt", parts[0], parts[1], parts[2])
		}
	case "software", "hardware":
		if n == 1 || n == 2 {
			parts[n-1] = plain(parts[n-1])
			return probeOf(at, kind, "", "", strings.Join(parts, "-"))
		}
	}
	return nil
}

// plain returns a number without an exponent and underscores, as D has it: 1e6 is 1000000. Another
// text is returned as it is.
func plain(text string) string {
	if text == "" || !digit(text[0]) {
		return text
	}
	n, err := integer(text)
	if err != nil {
		return text
	}
	return strconv.FormatUint(n, 10)
}

// timer returns the probe of interval:s:1, interval:1s and profile:hz:99.
func timer(at syntax.Span, name string, parts []string) *syntax.Probe {
	switch len(parts) {
	case 1:
		digits := len(parts[0]) - len(strings.TrimLeft(parts[0], "0123456789"))
		if digits == 0 {
			return nil
		}
		if digits == len(parts[0]) { // profile:99 is not valid, interval:5 is in ns
			return nil
		}
		return probeOf(at, "profile", "", "", name+parts[0])
	case 2:
		switch parts[0] {
		case "s", "ms", "us", "ns", "hz":
			return probeOf(at, "profile", "", "", name+plain(parts[1])+parts[0])
		}
	}
	return nil
}
