package captured

import (
	"regexp"
	"strconv"
	"strings"

	"culprit/diagnose/kernelmessage"
)

// logLine is the beginning of a line of dmesg (also -T, -x, -r, --time-format iso, and with the
// thread that wrote it) or of a system log (journalctl -k, also -o short-precise, short-iso,
// short-monotonic, short-unix). Its groups are the facility, as a word and as a number.
var logLine = regexp.MustCompile(
	`^(?:<(\d+)>|(\w+)\s*:\w+\s*: )?` +
		`(?:\[(?: *\d+\.\d{3,9}|\w{3} \w{3} .{14,18})\]|\d{4}-\d\d-\d\dT[\d:]+,\d{6}[+-][\d:]+) ?` +
		`(?:\[ *[TC]\d+\] ?)?(?:\S+ kernel: )?` +
		`|^(?:\w{3} +\d{1,2} \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\dT\S+|\d{9,10}\.\d{6}) ` +
		`\S+ kernel: (?:\[ *\d+\.\d+\] )?`)

// ofProgram reports whether a line was written by a program, which may claim anything: its
// facility is not that of the kernel.
func ofProgram(line string, at []int) bool {
	if at[2] >= 0 {
		n, err := strconv.Atoi(line[at[2]:at[3]])
		return err != nil || n > 7 // 8 * facility + level
	}
	return at[4] >= 0 && line[at[4]:at[5]] != "kern"
}

// log reads a line of the kernel's log. Only those with an event are rows, and the first one.
func (r *reader) log(line string, _ []string) bool {
	at := logLine.FindStringSubmatchIndex(line)
	if at == nil {
		return false
	}
	if ofProgram(line, at) {
		return true
	}
	t := r.block(Log, "the kernel log", "event", "name", "detail", "time", "text")
	text := line[at[1]:]
	row := []string{"", "", "", strings.TrimSpace(line[:at[1]]), shorten(text)}
	if m, name, detail := kernelmessage.Find(r.messages, text); m != nil {
		row[0], row[1], row[2] = m.Event, shorten(name), shorten(detail)
	}
	if row[0] != "" || len(t.Rows) == 0 {
		r.put(t, row...)
	}
	return true
}

// shorten cuts a text that a report quotes.
func shorten(s string) string {
	const most = 160
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
