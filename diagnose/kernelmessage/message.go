// Package kernelmessage has the table of messages that the kernel writes to its log when something
// fails, and what they mean.
package kernelmessage

import (
	"regexp"
	"strings"

	"culprit/diagnose"
)

// A Message is what the kernel writes to its log when something fails.
type Message struct {
	Event    string // identifies it, as a part of the ID of a finding: "disk error"
	hint     string // each of its lines has this text
	text     *regexp.Regexp
	Severity diagnose.Severity
	Least    int    // how many of them are a finding
	Rule     string // of the finding in a log that is imported
	Kind     string // of the culprit
	Claim    string // with {name}, {detail} and {n}, as in "3 times"
	recovery *regexp.Regexp
}

// Match returns what failed and how, by its text. ok is false for another message.
func (m *Message) Match(text string) (name, detail string, ok bool) {
	if !strings.Contains(text, m.hint) {
		return "", "", false
	}
	return groups(m.text, text)
}

// Recovers reports whether a text states that what failed works again.
func (m *Message) Recovers(name, text string) bool {
	if m.recovery == nil {
		return false
	}
	other, _, ok := groups(m.recovery, text)
	return ok && other == name
}

// groups returns the groups name and detail of a match.
func groups(text *regexp.Regexp, line string) (name, detail string, ok bool) {
	found := text.FindStringSubmatch(line)
	if found == nil {
		return "", "", false
	}
	for i, group := range text.SubexpNames() {
		switch group {
		case "name":
			name = found[i]
		case "detail":
			detail = found[i]
		}
	}
	return name, detail, true
}

// Find returns the message of a text, with what failed and how; nil: none of them.
func Find(all []Message, text string) (m *Message, name, detail string) {
	for i := range all {
		if name, detail, ok := all[i].Match(text); ok {
			return &all[i], name, detail
		}
	}
	return nil, "", ""
}

// Sentence returns the claim for what failed n times.
func (m *Message) Sentence(name, detail, n string) string {
	return strings.NewReplacer("{name}", name, "{detail}", detail, "{n}", n).Replace(m.Claim)
}
