package profile

import "bytes"

// This file is the grammar of perf script's output. Which fields exist depends on -F.

// A perfHead is the first line of a sample.
type perfHead struct {
	command, pid, tid, event, rest []byte
	period                         float64
	timed                          bool   // it has a time
	time                           []byte // in seconds
}

// sure reports whether a line with this head begins a sample in any context.
func (h *perfHead) sure() bool { return h.timed && len(h.event) > 0 }

// perfWords iterates over the words of a line.
type perfWords struct {
	b          []byte
	start, end int // of the current word
}

func (w *perfWords) next() (word []byte, ok bool) {
	at := w.end
	for at < len(w.b) && (w.b[at] == ' ' || w.b[at] == '\t') {
		at++
	}
	w.start = at
	for at < len(w.b) && w.b[at] != ' ' && w.b[at] != '\t' {
		at++
	}
	w.end = at
	return w.b[w.start:at], at > w.start
}

// parsePerfHead parses the first line of a sample:
//
//	command  thread or process/thread  [CPU]  flags  time:  period  event:  rest
//
// Each field can be absent. The command can contain blanks and numbers: the thread is the last
// number before the CPU or the time; without both, the first number after the command. The rest
// after the event is a frame, or the arguments of a tracepoint. It reports false for lines of
// records (PERF_RECORD_*, "instruction trace error") and for lines with only a command.
func parsePerfHead(b []byte) (h perfHead, ok bool) {
	h.period = 1
	w := perfWords{b: b}
	anchor, ids := perfAnchor(b)
	if bytes.Contains(b, []byte("PERF_RECORD_")) || ids < 0 ||
		bytes.HasPrefix(bytes.TrimLeft(b, " \t"), []byte("instruction trace error")) {
		return h, false
	}
	h.command = bytes.Trim(b[:ids], " \t")
	w.end = ids
	if anchor != ids { // there is a thread
		id, _ := w.next()
		pid, tid, both := bytes.Cut(id, []byte("/"))
		if h.pid, h.tid = pid, tid; !both {
			h.pid, h.tid = []byte("?"), pid
		}
	} else {
		h.pid, h.tid = []byte("?"), []byte("?")
	}
	var number []byte
	for {
		word, more := w.next()
		if !more {
			return h, len(h.command) > 0 || anchor != ids || h.timed
		}
		switch last := word[len(word)-1]; {
		case last == ':' && isTime(word[:len(word)-1]):
			h.timed, h.time = true, word[:len(word)-1]
		case isDigits(word):
			number = word
		case last == ':':
			h.event = word[:len(word)-1]
			if v := parseCount(number); v > 0 {
				h.period = v
			}
			h.rest = bytes.Trim(b[w.end:], " \t")
			return h, true
		}
	}
}

// perfAnchor returns the position of the CPU or the time, or without both of the text after the
// thread, and the position of the thread. Without a thread both are equal; without any of them they
// are -1.
func perfAnchor(b []byte) (anchor, ids int) {
	w := perfWords{b: b}
	// The word before; whether it is a number; the first number that is not the first word.
	before, numeric, first := 0, false, -1
	bare := -1 // a CPU or time without a thread before it
	for {
		word, ok := w.next()
		if !ok {
			break
		}
		switch {
		case isPerfCPU(word) || word[len(word)-1] == ':' && isTime(word[:len(word)-1]):
			if numeric {
				return w.start, before
			}
			if bare < 0 {
				bare = w.start
			}
		case word[len(word)-1] == ':' && bare < 0 && first >= 0 && len(word) > 1:
			return -2, first // an event without a CPU or time before it
		}
		pid, tid, both := bytes.Cut(word, []byte("/"))
		numeric = isDigits(bytes.TrimPrefix(pid, []byte("-"))) &&
			(!both || isDigits(bytes.TrimPrefix(tid, []byte("-"))))
		if numeric && first < 0 && w.start > 0 && len(bytes.Trim(b[:w.start], " \t")) > 0 {
			first = w.start
		}
		before = w.start
	}
	if bare >= 0 {
		return bare, bare
	}
	if numeric && first >= 0 { // the last word
		return -2, before
	}
	if first >= 0 {
		return -2, first
	}
	return -1, -1
}

// isPerfCPU reports whether a word is [012].
func isPerfCPU(word []byte) bool {
	return len(word) > 2 && word[0] == '[' && word[len(word)-1] == ']' &&
		isDigits(word[1:len(word)-1])
}

func isTime(b []byte) bool {
	whole, part, _ := bytes.Cut(b, []byte("."))
	return isDigits(whole) && isDigits(part)
}

// looseHead parses the first line of a sample with neither time nor event: a command, with or
// without a thread and a CPU. Such a line begins a sample only if a frame follows.
func looseHead(b []byte) (h perfHead, ok bool) {
	if bytes.Contains(b, []byte("PERF_RECORD_")) || len(bytes.TrimSpace(b)) == 0 {
		return h, false
	}
	if h, ok = parsePerfHead(b); ok {
		return h, true
	}
	return perfHead{command: bytes.Trim(b, " \t"), pid: []byte("?"), tid: []byte("?"),
		period: 1}, true
}

// parsePerfFrame parses the line of a frame: address name (file). The name and the file can contain
// blanks and parentheses.
func parsePerfFrame(b []byte) (address, name, file []byte, ok bool) {
	b = bytes.Trim(b, " \t")
	end := 0
	for end < len(b) && (b[end] >= '0' && b[end] <= '9' || b[end] >= 'a' && b[end] <= 'f') {
		end++
	}
	if end == 0 || end >= len(b) || b[end] != ' ' && b[end] != '\t' || b[len(b)-1] != ')' {
		return nil, nil, nil, false
	}
	address = b[:end]
	depth, at := 0, len(b)
	for at--; at > end; at-- {
		if b[at] == ')' {
			depth++
		} else if b[at] == '(' {
			if depth--; depth == 0 {
				break
			}
		}
	}
	if at <= end || b[at-1] != ' ' && b[at-1] != '\t' {
		return nil, nil, nil, false
	}
	return address, bytes.Trim(b[end:at], " \t"), b[at+1 : len(b)-1], true
}

// minAddress is the lowest number of digits of an address after other fields of a line.
const minAddress = 4

// parseAnyFrame parses the line of a frame that may lack the file, or the name and the file. Only
// within a sample is such a line a frame: it begins with a blank.
func parseAnyFrame(b []byte) (address, name, file []byte, ok bool) {
	if address, name, file, ok = parsePerfFrame(b); ok || len(b) == 0 ||
		b[0] != ' ' && b[0] != '\t' {
		return address, name, file, ok
	}
	padded := isPadded(b)
	b = bytes.Trim(b, " \t")
	if i := bytes.IndexAny(b, " \t"); i > 0 {
		address, name = b[:i], bytes.Trim(b[i:], " \t")
	} else {
		address = b
	}
	if !isHex(address) || !padded && (len(address) < minAddress ||
		len(name) > 0 && isHex(firstWord(name)) && isDigits(address)) {
		return nil, nil, nil, false
	}
	if len(name) == 0 {
		name = []byte("[unknown]")
	}
	return address, name, []byte("[unknown]"), true
}

// addressWidth is the width of an address that perf script prints after a tab.
const addressWidth = 16

// isPadded reports whether a line begins like a frame of perf script: a tab and an address padded
// with blanks to that width.
func isPadded(b []byte) bool {
	b, ok := bytes.CutPrefix(b, []byte("\t"))
	if !ok || len(b) < addressWidth {
		return false
	}
	return isHex(bytes.TrimLeft(b[:addressWidth], " ")) &&
		(len(b) == addressWidth || b[addressWidth] == ' ')
}

// frameIn returns the frame in a sample's own line after the event. Before it can be the address
// and the source of data (perf mem: 68100142 |OP LOAD|LVL L1 hit|...), a weight and the kind of a
// branch; after it the target of the branch.
func frameIn(rest []byte) ([]byte, bool) {
	if from, _, branch := bytes.Cut(rest, []byte(" => ")); branch {
		rest = from
	}
	skipped := false
	if bytes.Contains(rest, []byte("|OP ")) {
		rest, skipped = rest[bytes.LastIndexByte(rest, '|')+1:], true
	}
	w := perfWords{b: rest}
	for words := 0; words < 8; words++ {
		word, ok := w.next()
		if !ok {
			return nil, false
		}
		if isHex(word) && (words == 0 && !skipped || len(word) >= minAddress) {
			_, _, _, ok = parsePerfFrame(rest[w.start:])
			return rest[w.start:], ok
		}
		if bytes.IndexByte(word, '=') > 0 { // arguments of a tracepoint
			return nil, false
		}
	}
	return nil, false
}

// isAside reports whether a line within a sample describes the frame or sample before it: the
// source line, the branches before it, the bytes of the instruction.
func isAside(b []byte) bool {
	b = bytes.TrimSpace(b)
	first, _, _ := bytes.Cut(b, []byte(" "))
	if i := bytes.LastIndexByte(b, ':'); i > 0 && isDigits(b[i+1:]) {
		return true // app.c:7
	}
	if i := bytes.LastIndexByte(b, '['); i > 0 && b[len(b)-1] == ']' && isHex(b[i+1:len(b)-1]) {
		return true // libc.so.6[21b97]
	}
	switch string(first) {
	case "ilen:", "insn:", "bytecode:", "regs:", "ABI:", "brstack:", "...":
		return true
	}
	return bytes.HasPrefix(first, []byte("0x")) && bytes.IndexByte(first, '/') > 0 ||
		bytes.HasPrefix(first, []byte("??:"))
}

// sourceLine parses the source line of a frame: app.c:7.
func sourceLine(b []byte) (file string, line int, ok bool) {
	b = bytes.TrimSpace(b)
	i := bytes.LastIndexByte(b, ':')
	if i <= 0 || i+10 < len(b) || !isDigits(b[i+1:]) || bytes.HasPrefix(b, []byte("??")) {
		return "", 0, false
	}
	return string(b[:i]), int(parseCount(b[i+1:])), true
}

// isRecord reports whether a line is a record or message of perf: neither a sample nor a folded
// stack.
func isRecord(b []byte) bool {
	b = bytes.TrimSpace(b)
	return bytes.Contains(b, []byte("PERF_RECORD_")) ||
		bytes.HasPrefix(b, []byte("instruction trace error")) ||
		bytes.HasPrefix(b, []byte("Processed ")) || bytes.HasPrefix(b, []byte("Warning:")) ||
		bytes.HasPrefix(b, []byte("Check IO/CPU overload")) ||
		bytes.HasPrefix(b, []byte("addr2line: ")) ||
		bytes.HasPrefix(b, []byte("cmd__addr2line: ")) ||
		bytes.HasPrefix(b, []byte("[ perf record: "))
}

// cutModifiers removes the modifiers of an event: cycles:u, cpu-clock:uhH.
func cutModifiers(event []byte) []byte {
	if i := bytes.LastIndexByte(event, ':'); i > 0 &&
		len(bytes.Trim(event[i+1:], "ukhpPGHISDWeb")) == 0 {
		return event[:i]
	}
	return event
}

// hybridEvent returns the event counted by one kind of CPU: cycles for cpu_core/cycles/P and
// cpu_atom/cycles/.
func hybridEvent(event []byte) (name []byte, ok bool) {
	unit, rest, ok := bytes.Cut(event, []byte("/"))
	if !ok ||
		!bytes.HasPrefix(unit, []byte("cpu_")) && !bytes.HasPrefix(unit, []byte("armv8_")) &&
			!bytes.HasPrefix(unit, []byte("apple_")) {
		return nil, false
	}
	i := bytes.LastIndexByte(rest, '/')
	if i <= 0 {
		return nil, false
	}
	return rest[:i], true
}
