package export

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// modes are the words for modes of CPU time that differ from the recorded ones, as recorded and as
// exported. The exported ones are those of node_exporter and OpenTelemetry.
//
// table: a constant that Go cannot express
var modes = [][2]string{{"usr", "user"}, {"sys", "system"}, {"soft", "softirq"}}

// Label returns the label value for the value of a field, in UTF-8: a byte that is not UTF-8
// becomes \xHH. Modes of CPU time have Prometheus's words.
func Label(field, value string) string {
	if field == "mode" {
		for _, m := range modes {
			if value == m[0] {
				return m[1]
			}
		}
	}
	return validUTF8(value)
}

// Value returns the recorded value of a field whose label value is label. ok is false if no value
// or more than one has that label.
func Value(field, label string) (value string, ok bool) {
	if field == "mode" {
		for _, m := range modes {
			switch label {
			case m[0]:
				return "", false
			case m[1]:
				return m[0], true
			}
		}
	}
	return label, !hasEscape(label)
}

func hasEscape(s string) bool { return strings.Contains(s, `\x`) }

// validUTF8 returns s with each byte that is not UTF-8 as \xHH.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}
