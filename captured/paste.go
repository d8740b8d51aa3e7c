package captured

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// decoded converts text of Windows-1252 to UTF-8. Text that is UTF-8 stays as it is.
func decoded(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	// 0x80 to 0x9f; 0: not assigned
	high := [32]rune{'€', 0, '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', 0, 'Ž', 0, 0,
		'‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', 0, 'ž', 'Ÿ'}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n <= 1 {
			c := text[0]
			switch {
			case c >= 0xa0:
				r = rune(c)
			case c >= 0x80 && high[c-0x80] != 0:
				r = high[c-0x80]
			}
		}
		b.WriteRune(r)
		text = text[max(n, 1):]
	}
	return b.String()
}

// escape is a sequence that colours text, moves the cursor, or names the window.
var escape = regexp.MustCompile(`\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)` +
	`|[()][0-9A-B]|[=>78])`)

// withoutColours removes the sequences of a terminal.
func withoutColours(text string) string {
	if !strings.Contains(text, "\x1b") {
		return text
	}
	return escape.ReplaceAllString(text, "")
}

// lineTime is the time that ts, a log or a console puts before each line:
//
//	2026-11-28T10:00:01.123Z  Nov 28 10:00:01  [10:00:01]  2026-11-28 10:00:01,123 +0100
var lineTime = regexp.MustCompile(`^\[?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?` +
	` ?(?:Z|[+-]\d\d:?\d\d)?|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)\]?:?(?: |\t|$)|` +
	`^\[\d\d:\d\d:\d\d(?:\.\d{1,9})?\](?: |\t|$)`)

// isoLine is the beginning of a line of dmesg --time-format iso.
var isoLine = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:?\d\d `)

// withoutTimes removes the times before lines when all lines have one. The lines of a kernel's log
// keep theirs.
func withoutTimes(text string) string {
	lines := strings.Split(text, "\n")
	timed, others := 0, 0
	for _, line := range lines {
		switch {
		case strings.TrimSpace(line) == "":
		case strings.Contains(line, " kernel: "), isoLine.MatchString(line):
			return text
		case lineTime.MatchString(line):
			timed++
		default:
			others++
		}
	}
	if timed < 2 || others > 0 {
		return text
	}
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		if at := lineTime.FindStringIndex(line); at != nil {
			line = line[at[1]:]
		}
		b.WriteString(line)
	}
	return b.String()
}

// wrapped joins the rows of df that older versions write on two lines: the device, and the numbers
// below it. nil: the line is such a device.
func (r *reader) wrapped(fields []string) []string {
	f := fields[0]
	if len(fields) == 1 && (strings.HasPrefix(f, "/") || strings.Contains(f, ":/")) {
		r.facts["wrapped"] = fields[0]
		return nil
	}
	device := r.facts["wrapped"]
	delete(r.facts, "wrapped")
	if _, is := number(fields[0]); device != "" && is {
		return append([]string{device}, fields...)
	}
	return fields
}
