package profile

import (
	"bytes"
	"fmt"
)

// Formats that are not read are recognised too, so that the error can name them and say what to do.

// A magic is the start of a format that is not read.
type magic struct {
	at    int64 // byte of the input
	begin string
	what  string
}

// magics are the formats recognised by their first bytes.
//
// table: magic numbers of file(1) and of the tools themselves
var magics = []magic{
	{0, "PERFFILE", "a perf.data file of a perf before Linux 3.2: perf script -i FILE writes its stacks as text"},
	{0, "2ELIFREP", "a perf.data file of a big-endian machine: perf script -i FILE there writes its stacks as text"},
	{0, "SIMPLEPERF", "a file of simpleperf report-sample --protobuf: simpleperf report-sample without --protobuf writes text"},
	{0, "MOJO", "a binary file of austin (MOJO): mojo2austin FILE out.austin makes folded stacks of it"},
	{0, "MOJ", "a binary file of austin (MOJO): mojo2austin FILE out.austin makes folded stacks of it"},
	{0, "\x04\x22\x4d\x18", "packed by lz4: lz4 -dc FILE | culprit flame -"},
	{0, "LZIP", "packed by lzip: lzip -dc FILE | culprit flame -"},
	{0, "\x1f\x9d", "packed by compress: gzip -dc FILE | culprit flame -"},
	{0, "7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it, and read the files in it"},
	{0, "Rar!", "a rar archive: unpack it, and read the files in it"},
	{0, "PK\x03\x04", "a zip archive: unzip FILE, and read the files in it (of Xcode and Visual Studio an export as text)"},
	{257, "ustar", "a tar archive: tar -xf FILE, and read the files in it"},
	{0, "\x7fELF", "a program, not a profile of it: culprit profile --process NAME makes one"},
	{0, "JAVA PROFILE", "a heap dump of Java: a heap analyser reads it; it has no stacks of CPU time"},
	{0, "SQLite format 3\x00", "an SQLite database (of Nsight or VTune?): export its stacks as text"},
	{0, "\xd0\xcf\x11\xe0", "an old file of Microsoft's tools: export its stacks as text"},
	{0, "go 1.", "a trace of Go: go tool trace -pprof=sched FILE makes a profile of it"},
	{0, "\x89PNG", "a picture (PNG), not the stacks that it was made of"},
	{0, "%PDF", "a PDF, not the stacks that it was made of"},
	{0, "heap_v2/", "a heap profile of jemalloc: jeprof --collapsed PROGRAM FILE makes folded stacks of it"},
	{0, "<?xml", "XML that is no export of a time profile by xctrace: xctrace export --xpath ... exports one"},
	{0, "<svg", "a picture (SVG), not the stacks that it was made of"},
	{0, "<!DOCTYPE", "a page of HTML, not the stacks that it was made of"},
	{0, "<html", "a page of HTML, not the stacks that it was made of"},
	{0, "# callgrind format", callgrindAdvice},
	{0, "# callgrind", callgrindAdvice},
	{0, "version: 1\n", callgrindAdvice},
	{0, "events: ", callgrindAdvice},
	{0, "desc: ", callgrindAdvice},
	{0, "positions: ", callgrindAdvice},
	{0, "digraph ", "a graph for dot, not the stacks that it was made of"},
	{0, "\xcf\xfa\xed\xfe", "a program of macOS, not a profile of it"},
	{0, "MZ", "a program of Windows, not a profile of it"},
	{0, "\x00asm", "a module of WebAssembly, not a profile of it"},
	{0, "Flat profile:", "what gprof prints: it counts calls and functions and has no stacks"},
	{0, "v8-version,", "a log of V8's profiler: node --prof-process --preprocess, or better node --cpu-prof, whose .cpuprofile is read"},
	{0, "*version\n", "a trace of Android's runtime: it is not read; simpleperf report-sample writes text that is"},
	{0, "SLOW", "a trace of Android's runtime: it is not read; simpleperf report-sample writes text that is"},
	{0, "bplist00", "a property list of Apple's tools: xctrace export --xpath of the time profile writes XML that is read"},
	{0, "Process: ", "a sample of macOS without its call graph, or a crash report: sample PID writes stacks"},
	{0, "TRACE START [", "a trace of Xdebug: its profiles of stacks are not read"},
}

const callgrindAdvice = "a file of callgrind: it has what each function called, and no stacks; " +
	"gprof2dot or KCachegrind reads it"

// advice returns the error of an input of a known format that is not read; nil for others.
func advice(head []byte) *ParseError {
	text := bytes.TrimLeft(head, " \t\r\n")
	if looksBinary(head) || len(text) == 0 {
		text = head
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	// The name of a function can begin like a magic.
	isStack := bytes.IndexByte(first, ';') >= 0 && counted(trimCR(first))
	for _, m := range magics {
		if isStack && controlAt([]byte(m.begin)) < 0 && m.begin[len(m.begin)-1] < 0x80 {
			continue
		}
		if at := int(m.at); len(text) >= at && bytes.HasPrefix(text[at:], []byte(m.begin)) {
			return &ParseError{Line: 1, What: "this is " + m.what}
		}
	}
	if looksBinary(head) {
		return nil
	}
	return tableAdvice(head)
}

// looksBinary reports whether the input contains bytes that text does not.
func looksBinary(head []byte) bool { return controlAt(head) >= 0 }

// controlAt returns the position of the first byte that text does not contain; -1 for none.
func controlAt(head []byte) int {
	for i, c := range head {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' && c != 0x1b && c != '\f' {
			return i
		}
	}
	return -1
}

// unknownFormat returns the error of an input of an unknown format, after skipped lines.
func unknownFormat(head []byte, skipped int) error {
	if i := controlAt(head); i >= 0 {
		const what = "neither text nor pprof: no known format of stacks. "
		return &ParseError{Byte: int64(i), What: what + readable}
	}
	blank := len(head) - len(bytes.TrimLeft(head, "\r\n\t "))
	line := skipped + 1 + bytes.Count(head[:blank], []byte("\n"))
	first := bytes.TrimSpace(head)
	if i := bytes.IndexAny(first, "\r\n"); i >= 0 {
		first = first[:i]
	}
	begin := shortened(string(first), 60)
	what := fmt.Sprintf("no known format of stacks: %q. %s", begin, readable)
	return &ParseError{Line: line, What: what}
}

// readable is the end of an error about an unknown format.
const readable = "Readable: perf script, folded lines (function;function count), pprof, " +
	"speedscope, Chrome, Firefox, DTrace, bpftrace, jstack, gdb, goroutines and others: " +
	"culprit flame --help lists them"

// tableHeads are words of table headings, each with the tool that prints them.
//
// table: heads that the tools print
var tableHeads = []struct {
	words []string
	what  string
}{
	{[]string{"%usr", "%idle"}, "mpstat"},
	{[]string{"minf", "mjf", "xcal"}, "mpstat"},
	{[]string{"%user", "%iowait", "%idle"}, "sar or iostat"},
	{[]string{"r", "b", "swpd", "free"}, "vmstat"},
	{[]string{"kthr", "memory", "page"}, "vmstat"},
	{[]string{"procs", "-----------memory----------"}, "vmstat"},
	{[]string{"PID", "%CPU", "COMMAND"}, "ps or top"},
	{[]string{"PID", "TTY", "TIME", "CMD"}, "ps"},
	{[]string{"UID", "PID", "PPID", "CMD"}, "ps"},
	{[]string{"load", "average:"}, "top or uptime"},
	{[]string{"Tasks:", "running,"}, "top"},
	{[]string{"PID", "%usr", "Command"}, "pidstat"},
	{[]string{"Device", "r/s", "w/s"}, "iostat"},
	{[]string{"Device:", "tps"}, "iostat"},
	{[]string{"Filesystem", "Use%"}, "df"},
	{[]string{"total", "used", "free", "shared"}, "free"},
	{[]string{"Proto", "Recv-Q", "Send-Q"}, "netstat"},
	{[]string{"Netid", "State", "Recv-Q"}, "ss"},
	{[]string{"IFACE", "rxpck/s"}, "sar"},
	{[]string{"Int", "rKb/s", "wKb/s"}, "nicstat"},
	{[]string{"LINK", "PROPERTY", "VALUE"}, "dladm"},
	{[]string{"indv", "cuml", "rcnt"}, "lockstat"},
	{[]string{"%", "time", "seconds", "usecs/call"}, "strace -c"},
	{[]string{"Performance", "counter", "stats", "for"}, "perf stat"},
	{[]string{"IRQ", "Vect", "IPL"}, "mdb"},
	{[]string{"CPU0", "CPU1"}, "/proc/interrupts"},
	{[]string{"%Cpu(s):"}, "top"},
	{[]string{"%CPU", "%Mem", "%Disk"}, "sysperfstat"},
	{[]string{"flat", "flat%", "sum%", "cum"}, "pprof -top"},
	{[]string{"-------------", "Distribution", "-------------"}, "DTrace's quantize"},
}

// tableHead reports whether a line is the heading of a known table or of perf report.
func tableHead(line []byte) bool { return tableOf(line) != "" || isReportHead(line) }

// isReportHead reports whether a line belongs to the heading of perf report.
func isReportHead(line []byte) bool {
	if len(line) == 0 || line[0] != '#' {
		return false
	}
	return bytes.Contains(line, []byte("Overhead ")) ||
		bytes.HasPrefix(line, []byte("# Samples: ")) && bytes.Contains(line, []byte(" of event"))
}

// tableOf returns the tool that prints this heading; "" for an unknown one.
func tableOf(line []byte) string {
	if len(line) > 400 {
		line = line[:400]
	}
	if bytes.IndexByte(line, ';') >= 0 {
		return ""
	}
	words := bytes.Fields(line)
next:
	for _, t := range tableHeads {
		at := 0
		for _, w := range words {
			if at < len(t.words) && string(w) == t.words[at] {
				at++
			}
		}
		if at < len(t.words) {
			continue next
		}
		return t.what
	}
	return ""
}

// tableAdvice returns the error of a table of numbers without stacks; nil for other inputs.
func tableAdvice(head []byte) *ParseError {
	n, counted, columns, stacks, rulers, first := 0, 0, 0, 0, 0, 0
	for line := range bytes.Lines(head) {
		n++
		line = bytes.TrimRight(line, " \t\r\n")
		if isReportHead(line) {
			return &ParseError{Line: n, What: "this is the output of perf report, shares without " +
				"whole stacks: perf script -i perf.data writes stacks"}
		}
		state := bytes.Contains(line, []byte(" (active")) || bytes.Contains(line, []byte(" (idle"))
		if bytes.HasPrefix(line, []byte("Thread ")) && state && line[len(line)-1] == '"' {
			return &ParseError{Line: n, What: "this is the output of py-spy dump, one moment of " +
				"each thread: py-spy record --format raw writes folded stacks"}
		}
		if bytes.HasSuffix(line, []byte(" log opened (PC)")) ||
			bytes.Contains(line, []byte("log opened")) && bytes.Contains(line, []byte("apyrus")) {
			return &ParseError{Line: n, What: "this is a log of Papyrus: " +
				"speedscope reads it, and exports a profile that is read"}
		}
		if tool := tableOf(line); tool != "" {
			what := numbersAdvice + ", as " + tool + " prints" + stacksAdvice
			return &ParseError{Line: n, What: what}
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if bytes.ContainsAny(line, ";`") {
			stacks++
		}
		if isRuler(line) {
			rulers++
		}
		if numbers := numberColumns(line); numbers > 0 {
			words := len(bytes.Fields(line))
			if counted++; numbers > 2 || numbers == 2 && words == 2 ||
				numbers == words && numbers > 1 {
				if columns++; first == 0 {
					first = n
				}
			}
		}
	}
	if stacks == 0 && counted > 0 && (2*columns > counted || rulers > 0 && counted > columns/2) {
		return &ParseError{Line: max(1, first), What: numbersAdvice + stacksAdvice}
	}
	return nil
}

const (
	numbersAdvice = "this is a table of numbers without stacks"
	stacksAdvice  = ": culprit flame reads stacks, as culprit profile and perf script write them"
)

// isRuler reports whether a line is the rule below the heading of a table.
func isRuler(line []byte) bool {
	return len(line) >= 8 && len(bytes.Trim(line, "-+|= ")) == 0 &&
		bytes.Contains(line, []byte("----"))
}

// numberColumns returns how many words at the end of a line are numbers.
func numberColumns(line []byte) int {
	words := bytes.Fields(line)
	n := 0
	for n < len(words) && isNumber(words[len(words)-1-n]) {
		n++
	}
	return n
}

// isNumber reports whether a word is a number in a table: 1,234 0.5 12:30:01 3% 10M.
func isNumber(w []byte) bool {
	w = bytes.TrimRight(bytes.TrimPrefix(w, []byte("-")), "%KMGTkms")
	if len(w) == 0 || w[0] < '0' || w[0] > '9' {
		return false
	}
	return len(bytes.Trim(w, "0123456789.,:")) == 0
}
