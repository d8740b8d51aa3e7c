package diagnose

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Numbers and names as the sentences of findings have them. Three digits tell as much as the measurement knows.

// digits gives v with three significant digits and no exponent: 0.0123 1.23 12.3 123 1234.
func digits(v float64) string {
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

// count gives a whole number with commas: 84,914. Below ten it keeps a digit after the point.
func count(v float64) string {
	if v != v || math.IsInf(v, 0) || math.Abs(v) > 1e18 {
		return "?"
	}
	if math.Abs(v) < 9.95 {
		return digits(math.Round(v*10) / 10)
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
	i := 0
	for math.Abs(v) >= base*0.9995 && i < len(units)-1 {
		v /= base
		i++
	}
	return digits(v) + " " + units[i]
}

// bitRate gives bits a second: 11.7 Mbit/s.
func bitRate(v float64) string {
	return scaled(v, 1000, "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")
}

// linkRate gives a nominal speed as people say it: 100 Mbit/s, 1000 Mbit/s, 10 Gbit/s.
func linkRate(v float64) string {
	if v >= 999.5e6 && v < 2000e6 {
		return digits(v/1e6) + " Mbit/s"
	}
	return bitRate(v)
}

// outOf gives a rate beside its limit in the limit's unit: 943 of 1000 Mbit/s.
func outOf(v, limit float64) string {
	l := linkRate(limit)
	n, unit, _ := strings.Cut(l, " ")
	scale := map[string]float64{"bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12}[unit]
	return digits(v/scale) + " of " + n + " " + unit
}

// bytesRate gives bytes a second, decimal: 52.5 MB/s.
func bytesRate(v float64) string { return scaled(v, 1000, "B/s", "kB/s", "MB/s", "GB/s") }

// bytes gives an amount on its way, decimal: 390 kB, and no parts of a byte.
func bytes(v float64) string { return scaled(wholeBytes(v, 1000), 1000, "B", "kB", "MB", "GB", "TB") }

// memory gives an amount of memory, binary as memory is made: 3.7 GiB.
func memory(v float64) string {
	return scaled(wholeBytes(v, 1024), 1024, "B", "KiB", "MiB", "GiB", "TiB")
}

// wholeBytes rounds a mean that is told in bytes.
func wholeBytes(v, base float64) float64 {
	if v < base {
		return math.Round(v)
	}
	return v
}

// duration gives nanoseconds: 7.8 ms.
func duration(ns float64) string {
	return scaled(ns, 1000, "ns", "us", "ms", "s")
}

// percent gives a ratio as percent: 0.3 %, 43 %, 99.7 %, 100 %.
func percent(r float64) string {
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

// seconds gives a time in seconds as a plain number: 10, 4.5.
func seconds(s float64) string {
	if r := math.Round(s); math.Abs(s-r) < 0.15 || s >= 20 {
		return strconv.FormatFloat(r, 'f', 0, 64)
	}
	return strconv.FormatFloat(s, 'f', 1, 64)
}

// plural gives "1 process", "3 processes".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// list gives "a", "a and b", "a, b and c".
func list(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// clean makes a name from the machine fit for a sentence: a process may call itself anything, escape codes too.
func clean(name string) string {
	name = printable(name)
	if len([]rune(name)) > 120 {
		name = string([]rune(name)[:119]) + "…"
	}
	return name
}

// printable takes out of a text what could disturb a terminal.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, name)
}

// shell quotes a name for a command line, so that no name can become a command.
func shell(name string) string {
	name = clean(name)
	ok := name != "" && name[0] != '-'
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_./:@%+=,-", c) >= 0) {
			ok = false
		}
	}
	if ok {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// named gives "iperf3[123]"; without a pid the name alone, without either "an unknown process".
func named(process string, pid int) string {
	p := clean(process)
	if p == "" {
		p = "an unknown process"
	}
	if pid > 0 {
		return fmt.Sprintf("%s[%d]", p, pid)
	}
	return p
}

// within gives a command that runs inside a network namespace; "" is the tool's own.
func within(netns, command string) string {
	if netns == "" {
		return command
	}
	if pid, ok := strings.CutPrefix(netns, "pid:"); ok {
		return "nsenter -t " + shell(pid) + " -n " + command
	}
	return "ip netns exec " + shell(netns) + " " + command
}

// at gives "eth0", or "eth0 in namespace box".
func at(netns, device string) string {
	if netns == "" {
		return clean(device)
	}
	return clean(device) + " in namespace " + clean(netns)
}

// slot gives the identity of a thing of a namespace for finding ids: eth0, or box:eth0.
func slot(netns, name string) string {
	if netns == "" {
		return clean(name)
	}
	return clean(netns) + ":" + clean(name)
}
