package profile

import (
	"bytes"

	"culprit/profile/jfr"
	"culprit/profile/perfdata"
)

// DetectFormat returns the format of an input by its first bytes; "" when it is not a known one.
// whole means that head is the whole input.
func DetectFormat(head []byte, whole bool) Format {
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	switch {
	case bytes.HasPrefix(head, []byte(perfdata.Magic)):
		return PerfData
	case bytes.HasPrefix(head, []byte(jfr.Magic)):
		return JFR
	case isObject(text, whole):
		return jsonFormat(text)
	case bytes.HasPrefix(text, []byte("<")) && bytes.Contains(text, []byte("<"+xctraceRoot)):
		return XCTrace
	case bytes.HasPrefix(text, []byte("Function Stack,")):
		return VTune
	case bytes.HasPrefix(text, []byte(visualStudioHead)):
		return VisualStudio
	}
	if looksLegacy(text) || looksLegacyCPU(head) {
		return LegacyPProf
	}
	profile, sure := looksPProf(head, whole)
	if sure {
		return PProf
	}
	if f := detectByHeading(head); f != "" {
		return f
	}
	lines, folded, twice, hashes, frames, counts := 0, 0, 0, 0, 0, 0
	sampled := false // the line before is that of a sample of perf script
	for len(head) > 0 {
		line, rest, ended := bytes.Cut(head, []byte("\n"))
		if !ended && !whole && lines > 0 {
			break
		}
		head = rest
		line = trimCR(line)
		bare := bytes.TrimSpace(line)
		if len(bare) > 0 && isComment(line) {
			continue
		}
		if h, ok := parsePerfHead(bare); len(bare) > 0 && line[0] == '#' &&
			(!ok || !h.sure()) { // a comment, or a function whose name begins with #
			if _, _, ok := cutCount(line); ok {
				hashes++
			}
			continue
		}
		if len(bare) == 0 || isRecord(bare) {
			continue
		}
		lines++
		if bytes.HasPrefix(line, []byte("@")) &&
			(bytes.HasSuffix(bare, []byte("[")) || bytes.Contains(bare, []byte("]: "))) {
			return BPFTrace
		}
		if (lines == 1 || sampled) &&
			isPadded(line) { // perf script -F ip,sym has no lines of samples
			return Perf
		}
		if _, name, _, ok := parseAnyFrame(line); ok && sampled && string(name) != "[unknown]" {
			return Perf
		}
		if h, ok := parsePerfHead(bare); ok && len(h.event) > 0 {
			if _, ok := frameIn(h.rest); ok || h.sure() {
				return Perf
			}
		}
		sampled = line[0] != ' ' && line[0] != '\t'
		switch stack, _, ok := cutCount(line); {
		case isDigits(bare):
			if frames > 0 {
				counts++
			}
		case isMetrics(line), ok && len(bytes.TrimSpace(stack)) > 0:
			folded++
			if rest, _, ok := cutCount(stack); ok && len(bytes.TrimSpace(rest)) > 0 {
				twice++
			}
		default:
			frames++
		}
	}
	switch {
	case folded > 0 && twice == folded && 2*folded >= lines:
		return FoldedTwice
	case folded > 0 && 2*folded >= lines:
		return Folded
	case counts > 0:
		return DTrace
	case lines == 0 && hashes > 0:
		return Folded
	case profile: // cut off: its reader reports it
		return PProf
	}
	return ""
}

// isObject reports whether text begins like a JSON object. The line of a function of such a name
// does not: it ends with a number.
func isObject(text []byte, whole bool) bool {
	if len(text) == 0 || text[0] != '{' && !isList(text) {
		return false
	}
	first, _, ended := bytes.Cut(text, []byte("\n"))
	_, _, counted := cutCount(trimCR(first))
	return !counted || !ended && !whole
}

// isList reports whether text begins like a JSON list of objects.
func isList(text []byte) bool {
	return text[0] == '[' && bytes.HasPrefix(bytes.TrimLeft(text[1:], " \t\r\n"), []byte("{"))
}

// detectByHeading detects formats by lines that occur in no other.
func detectByHeading(head []byte) Format {
	for line := range bytes.Lines(head) {
		line = bytes.TrimRight(line, " \t\r\n")
		switch {
		case len(line) == 0:
		case isGoroutine(line):
			return Goroutines
		case isInstruments(line):
			return Instruments
		case isPMC(line):
			return PMCStat
		case string(line) == "Call graph:":
			return Sample
		case isGHCHead(line):
			return GHC
		case bytes.HasPrefix(line, []byte("Full thread dump ")),
			bytes.HasPrefix(line, []byte("   java.lang.Thread.State: ")):
			return JStack
		case bytes.HasPrefix(line, []byte("PeriodType: ")) || string(line) == "Samples:":
			return GoRaw
		case bytes.HasPrefix(line, []byte("#0 ")) && !counted(line),
			bytes.HasPrefix(line, []byte("  File \"")) && bytes.Contains(line, []byte(`", line `)):
			return Debugger
		}
	}
	return ""
}

// counted reports whether a line ends with a count, as folded stacks do.
func counted(line []byte) bool {
	_, _, ok := cutCount(line)
	return ok
}

func isMetrics(line []byte) bool {
	_, _, ok := cutMetrics(line)
	return ok
}

func isGoroutine(line []byte) bool {
	_, head := goroutineHead(line)
	_, count := goroutineCount(line)
	return head || count
}

func isPMC(line []byte) bool {
	_, _, ok := pmcHead(line)
	return ok
}
