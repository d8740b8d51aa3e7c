package limits

import (
	"slices"

	"culprit/diagnose"
)

// A Source is rows of a statistic: those with the given words.
type Source struct {
	query string
	terms []string // field, word, field, word ...
}

// A Kind is one kind of limit: of what, which statistics have its use and its size, and how to
// describe it.
type Kind struct {
	id    string   // of findings: "filesystem"
	used  Source   // one row per owner
	sizes []Source // their sum is the limit; rows of the same owner
	// limit returns the limit from the sum of the sizes; nil: it is the sum.
	limit   func(float64) float64
	owner   []string // the fields that identify an owner
	rate    bool     // the use is a rate: near the limit it is at the limit
	machine bool     // the words of an owner may be empty: it is the machine
	skips   func(*diagnose.Look, *diagnose.Row) bool
	errors  errors
	words   words
	culprit func(owner *diagnose.Row) diagnose.Culprit
	verify  func(owner *diagnose.Row) string
	fix     func(owner *diagnose.Row, size float64) *diagnose.Fix
	// more adds evidence; nil for none.
	more func(*diagnose.Look, *diagnose.Finding, *use)
}

// errors are the requests that fail because of a limit.
type errors struct {
	// counters are the kernel's own counters of refused requests.
	counters []Source
	// failed reports whether a failed call is one of a limit of this kind, and of this owner.
	failed func(l *diagnose.Look, owner, call *diagnose.Row) bool
	// blocks means that requests wait in place of failing: they do while the limit is reached.
	blocks bool
	// urgent reports that requests wait for long: high, where medium is usual. nil: never.
	urgent func(*diagnose.Look, *use) bool
	// elsewhere means that failed calls may be of an owner that is not known, as a network file
	// system: medium unless the limit is near.
	elsewhere bool
	mild      bool // no program notices at once: medium
}

// words describe a limit in findings.
type words struct {
	things  string                           // that are counted: "file descriptors"
	amount  func(float64) string             // of things
	next    string                           // what happens at the limit: "the next open fails"
	refused string                           // "requests per second are refused"; "": that
	name    func(owner *diagnose.Row) string // in a claim
}

// queries returns the queries of the use, the size and the counters.
func (k Kind) queries() []string {
	all := []string{k.used.query}
	for _, list := range [][]Source{k.sizes, k.errors.counters} {
		for _, s := range list {
			all = append(all, s.query)
		}
	}
	return all
}

// refusedWords returns the text after the number of refused requests.
func (k Kind) refusedWords() string {
	if k.words.refused == "" {
		return "requests per second are refused"
	}
	return k.words.refused
}

// limitOf returns the limit from the sum of the sizes.
func (k Kind) limitOf(sum float64) float64 {
	if k.limit == nil {
		return sum
	}
	return k.limit(sum)
}

// rowOf returns the row of a source that belongs to an owner; nil when there is none. Fields that
// the source lacks do not count.
func (k Kind) rowOf(l *diagnose.Look, s Source, owner *diagnose.Row) *diagnose.Row {
	t := l.Table(s.query)
	terms := slices.Clone(s.terms)
	for _, f := range k.owner {
		if t.Column(f) >= 0 {
			terms = append(terms, f, owner.Word(f))
		}
	}
	return t.One(terms...)
}

// Kinds returns the limits that rule limit-reached checks.
//
// Other rules check these, which need more than use and size: memory of control groups
// (memory-pressure), CPU quotas (cgroup-throttled), tables of the kernel (table-full), listen
// queues (tcp-listen-overflow).
func Kinds() []Kind {
	return append([]Kind{filesystemSpace(), filesystemInodes(), processFiles(), cgroupPids(),
		ephemeralPorts(), timeWaits(), unixBacklogs(),
		cgroupIO(), cgroupOperations(), openFiles()}, kernelLimits()...)
}
