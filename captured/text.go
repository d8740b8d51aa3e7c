package captured

import (
	"math"
	"strconv"
	"strings"
)

// cleaner replaces characters that mail programs and word processors put into tables.
// It is a function because the package keeps no state.
func cleaner() *strings.Replacer {
	return strings.NewReplacer("\u00a0", " ", "\u2007", " ", "\u202f", " ", "\u2009", " ",
		"\u2018", "'", "\u2019", "'", "\u201c", `"`, "\u201d", `"`, "\u2212", "-",
		"\ufeff", "", "\u2026", "...", "\x00", "")
}

// unquote removes the marks of a quoted mail, "> > ", from the start of a line, and writes one
// blank between words.
func unquote(line string) string {
	line = strings.Join(strings.Fields(line), " ")
	for strings.HasPrefix(line, "> ") {
		line = strings.TrimSpace(line[2:])
	}
	return line
}

// number parses a number of a table: "12", "99.67", "99,67", "24,973,067", "374m", "4%", "1.2k",
// "23Gi", "12MiB", "0B". Suffixes K, M, G, T are powers of 1024. ok is false when s is no number.
func number(s string) (v float64, ok bool) {
	s = strings.TrimSuffix(strings.TrimSuffix(s, ","), "%")
	if n := len(s); n > 1 && s[n-1] == 'B' && (s[n-2] == 'i' || s[n-2] >= '0' && s[n-2] <= '9') {
		s = s[:n-1]
	}
	if n := len(s); n > 2 && s[n-1] == 'i' && strings.IndexByte("KMGT", s[n-2]) >= 0 {
		s = s[:n-1]
	}
	if s == "" {
		return math.NaN(), false
	}
	scale := scaleOf(s[len(s)-1])
	if scale > 1 {
		s = s[:len(s)-1]
	}
	if s == "" || strings.IndexByte("+-.0123456789", s[0]) < 0 {
		return math.NaN(), false
	}
	if strings.Contains(s, ",") {
		s = withoutCommas(s)
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(v, 0) || v != v {
		return math.NaN(), false
	}
	return v * scale, true
}

func scaleOf(suffix byte) float64 {
	switch suffix {
	case 'k', 'K':
		return 1 << 10
	case 'm', 'M':
		return 1 << 20
	case 'g', 'G':
		return 1 << 30
	case 't', 'T':
		return 1 << 40
	}
	return 1
}

// withoutCommas reads a comma before exactly three digits as a separator of thousands, and any
// other as the decimal comma: "8,642" is 8642, "99,67" is 99.67.
func withoutCommas(s string) string {
	whole, fraction, _ := strings.Cut(s, ".")
	groups := strings.Split(whole, ",")
	thousands := len(groups[0]) <= 3
	for _, g := range groups[1:] {
		thousands = thousands && len(g) == 3
	}
	switch {
	case thousands && strings.Contains(s, "."):
		return strings.Join(groups, "") + "." + fraction
	case thousands && groups[0] != "0" && groups[0] != "-0":
		return strings.Join(groups, "")
	case len(groups) == 2 && fraction == "":
		return groups[0] + "." + groups[1]
	}
	return s
}

// isTime reports whether a token is a time of day, "15:36:10" or "15:36".
func isTime(s string) bool {
	if len(s) < 5 || len(s) > 15 || s[0] < '0' || s[0] > '9' {
		return false
	}
	colons := 0
	for _, c := range []byte(s) {
		switch {
		case c == ':':
			colons++
		case (c < '0' || c > '9') && c != '.':
			return false
		}
	}
	return colons == 2 && strings.IndexByte(s, ':') <= 2
}

// isDate reports whether a token is a date: 2026-11-25, 11/25/26, 25.11.2026.
func isDate(s string) bool {
	if len(s) < 8 || len(s) > 10 || strings.Count(s, "-") != 2 && strings.Count(s, "/") != 2 &&
		strings.Count(s, ".") != 2 {
		return false
	}
	return strings.Trim(s, "0123456789-/.") == ""
}

// cutTime removes dates, times and the word for "Average:" from the start of a row.
func cutTime(fields []string) (when string, rest []string) {
	for len(fields) > 1 {
		f := fields[0]
		switch {
		case isTime(f) || isDate(f) || f == "Time" || f == "hh:mm:ss" || f == "timestamp":
		case when != "" && (f == "AM" || f == "PM"):
		case strings.HasSuffix(f, ":") && (strings.HasPrefix(f, "Average") ||
			strings.HasPrefix(f, "Durchschn") || strings.HasPrefix(f, "Moyenne") ||
			strings.HasPrefix(f, "Media") || strings.HasPrefix(f, "M\u00e9dia")):
			f = averages
		default:
			return when, fields
		}
		when = strings.TrimSpace(when + " " + f)
		fields = fields[1:]
	}
	return when, fields
}

// averages is the time of rows that summarize other rows.
const averages = "Average"

// isPrompt returns the command of a line such as "# mpstat 10", "$ vmstat 1" or
// "user@host:~$ iostat -x".
func isPrompt(line string) (command string, ok bool) {
	if c, found := strings.CutPrefix(line, "# "); found {
		return strings.TrimSpace(c), true
	}
	if line == "#" || line == "$" {
		return "", true
	}
	for i := 0; i < len(line) && i < 60; i++ {
		c := line[i]
		if (c == '$' || c == '#' || c == '%' && i > 0 || c == '>' && i > 0) &&
			i+1 < len(line) && line[i+1] == ' ' {
			before := line[:i]
			if i == 0 || strings.ContainsAny(before, "@~") && !strings.ContainsAny(before, "|(") {
				return strings.TrimSpace(line[i+1:]), true
			}
		}
	}
	return "", false
}
