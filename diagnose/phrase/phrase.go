package phrase

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"culprit/measure"
)

// Digits returns v with three significant digits and no exponent: 0.0123 1.23 12.3 123 1234.
func Digits(v float64) string {
	if v != v || math.IsInf(v, 0) {
		return "?"
	}
	a := math.Abs(v)
	places := 0
	switch {
	case a == 0 || a >= 99.95:
	case a >= 9.995:
		places = 1
	case a >= 0.9995:
		places = 2
	default:
		places = min(2+int(math.Ceil(-math.Log10(a))), 6)
	}
	s := strconv.FormatFloat(v, 'f', places, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

// Count returns a whole number with commas: 84,914. Below ten it has one digit after the point.
func Count(v float64) string {
	if v != v || math.IsInf(v, 0) || math.Abs(v) > 1e18 {
		return "?"
	}
	if math.Abs(v) < 9.95 {
		return Digits(math.Round(v*10) / 10)
	}
	s := strconv.FormatInt(int64(math.Round(math.Abs(v))), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if v < 0 {
		return "-" + s
	}
	return s
}

func scaled(v, base float64, units ...string) string {
	v, i := measure.Prefix(v, base, base-0.5, len(units)-1)
	return Digits(v) + " " + units[i]
}

// BitRate returns bits per second: 11.7 Mbit/s.
func BitRate(v float64) string {
	return scaled(v, 1000, "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")
}

// LinkRate returns a nominal speed: 100 Mbit/s, 1000 Mbit/s, 10 Gbit/s.
func LinkRate(v float64) string {
	if v >= 999.5e6 && v < 2000e6 {
		return Digits(v/1e6) + " Mbit/s"
	}
	return BitRate(v)
}

// OutOf returns a rate and its limit in the unit of the limit: 943 of 1000 Mbit/s.
func OutOf(v, limit float64) string {
	l := LinkRate(limit)
	n, unit, _ := strings.Cut(l, " ")
	scale := map[string]float64{"bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9,
		"Tbit/s": 1e12}[unit]
	return Digits(v/scale) + " of " + n + " " + unit
}

// BytesRate returns bytes per second, decimal: 52.5 MB/s.
func BytesRate(v float64) string { return scaled(v, 1000, "B/s", "kB/s", "MB/s", "GB/s") }

// Bytes returns an amount of data, decimal: 390 kB; whole bytes below 1 kB.
func Bytes(v float64) string {
	return scaled(wholeBytes(v, 1000), 1000, "B", "kB", "MB", "GB",
		"TB")
}

// Memory returns an amount of memory, binary: 3.7 GiB.
func Memory(v float64) string {
	return scaled(wholeBytes(v, 1024), 1024, "B", "KiB", "MiB", "GiB", "TiB")
}

// wholeBytes rounds a mean that is printed in bytes.
func wholeBytes(v, base float64) float64 {
	if v < base {
		return math.Round(v)
	}
	return v
}

// Duration returns a time in nanoseconds as text: 7.8 ms.
func Duration(ns float64) string {
	return scaled(ns, 1000, "ns", "us", "ms", "s")
}

// Amount returns a value in a unit of measure, as a reader expects it: 12 %, 52.5 MB/s, 7.8 ms,
// 1,234 packet/s.
func Amount(v float64, unit string) string {
	switch measure.Unit(unit) {
	case measure.Ratio:
		return Percent(v)
	case measure.Bytes:
		return Bytes(v)
	case measure.Bytes.PerSecond():
		return BytesRate(v)
	case measure.BitsPerSec:
		return BitRate(v)
	case measure.Nanoseconds:
		return Duration(v)
	case measure.Count:
		return Count(v)
	case measure.Count.PerSecond():
		return Count(v) + " per second"
	}
	return Count(v) + " " + unit
}

// Ahead returns a time in the future, in seconds: 40 s, 7 minutes, 5 hours, 12 days.
func Ahead(s float64) string {
	const hour, day = 3600, 86400
	switch {
	case s < 120:
		return Digits(s) + " s"
	case s < 2*hour:
		return Digits(s/60) + " minutes"
	case s < 2*day:
		return Digits(s/hour) + " hours"
	}
	return Count(s/day) + " days"
}

// Percent returns a ratio in percent: 0.3 %, 43 %, 99.7 %, 100 %.
func Percent(r float64) string {
	p := r * 100
	switch {
	case p != p || math.IsInf(p, 0):
		return "? %"
	case p > 0 && p < 0.05:
		return "<0.1 %"
	case p < 9.95 || p >= 99 && p < 99.95:
		return strconv.FormatFloat(math.Round(p*10)/10, 'f', -1, 64) + " %"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + " %"
}

// Seconds returns a time in seconds as a plain number: 10, 4.5.
func Seconds(s float64) string {
	if r := math.Round(s); math.Abs(s-r) < 0.15 || s >= 20 {
		return strconv.FormatFloat(r, 'f', 0, 64)
	}
	return strconv.FormatFloat(s, 'f', 1, 64)
}

// Plural returns "1 process", "3 processes".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// List returns "a", "a and b", "a, b and c".
func List(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// Clean makes a name of the machine printable and at most 120 characters long.
func Clean(name string) string {
	name = Printable(name)
	if len([]rune(name)) > 120 {
		name = string([]rune(name)[:119]) + "…"
	}
	return name
}

// Printable replaces characters that could disturb a terminal.
func Printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, name)
}

// Shell quotes a whole name for a command line: the command finds it, and no name can become
// a command. Characters that could disturb a terminal are written as bash reads them: $'a\x0ab'.
func Shell(name string) string {
	if Printable(name) != name {
		return escaped(name)
	}
	ok := name != "" && name[0] != '-'
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("_./:@%+=,-", c) >= 0) {
			ok = false
		}
	}
	if ok {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// escaped quotes a name in the way of bash's $'...'.
func escaped(name string) string {
	var b strings.Builder
	b.WriteString("$'")
	for at, r := range name {
		_, size := utf8.DecodeRuneInString(name[at:])
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r != utf8.RuneError && unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			for _, c := range []byte(name[at : at+size]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// ProcessName returns "iperf3[123]"; without a pid the name alone, without either "an unknown
// process".
func ProcessName(process string, pid int) string {
	p := Clean(process)
	if p == "" {
		p = "an unknown process"
	}
	if pid > 0 {
		return fmt.Sprintf("%s[%d]", p, pid)
	}
	return p
}

// InNamespace returns a command that runs inside a network namespace; "" is that of culprit.
func InNamespace(netns, command string) string {
	if netns == "" {
		return command
	}
	if pid, ok := strings.CutPrefix(netns, "pid:"); ok {
		return "nsenter -t " + Shell(pid) + " -n " + command
	}
	return "ip netns exec " + Shell(netns) + " " + command
}

// DeviceName returns "eth0", or "eth0 in namespace box".
func DeviceName(netns, device string) string {
	if netns == "" {
		return Clean(device)
	}
	return Clean(device) + " in namespace " + Clean(netns)
}

// Identity returns the identity of a thing in a namespace for finding IDs: eth0, or box:eth0.
func Identity(netns, name string) string {
	if netns == "" {
		return Clean(name)
	}
	return Clean(netns) + ":" + Clean(name)
}

// NamespaceSuffix returns " in namespace box", or "" for the namespace of culprit.
func NamespaceSuffix(netns string) string {
	if netns == "" {
		return ""
	}
	return " in namespace " + Clean(netns)
}
