package kernellog

import (
	"bytes"
	"strings"

	"culprit/kernel/proc"
	"culprit/measure"
)

// Levels of the kernel's log (include/linux/kern_levels.h).
const (
	levelWarning = 4
	levelDebug   = 7
)

// table: names of levels, by number
var levels = [levelDebug + 1]string{
	"emergency", "alert", "critical", "error", "warning", "notice", "info", "debug",
}

// maxText is the largest number of bytes of a text. Longer ones are cut.
const maxText = 160

// record is one message.
type record struct {
	level int
	event string // of events; other: none of them
	text  []byte // printable ASCII, one line, without addresses and secrets
}

// eventForm is how messages of one event are recognized: by one of the texts.
type eventForm struct {
	event string
	texts []string
}

// other is the event of messages that have none of the forms.
const other = "other"

// crash is the event of programs that crash. Their names come first in these messages, and programs
// choose them: this event is looked for before others.
//
// table: forms of messages
var crash = eventForm{"crash", []string{"]: segfault at", "general protection fault", "traps: ",
	"unhandled signal"}}

// events has the events that are recorded at any level; the first form that matches counts. The
// texts are those of Linux 4.18 to 6.18.
//
// table: forms of messages
var events = []eventForm{
	{"oom-kill", []string{"Out of memory: Killed process", "Out of memory: Kill process",
		"Memory cgroup out of memory: Kill"}},
	{"oom-cause", []string{"oom-kill:constraint=", "invoked oom-killer"}},
	{"limit", []string{"TCP: out of memory", "file-max limit", "rejected by pids controller"}},
	{"suppressed", []string{"callbacks suppressed"}},
	{"hung-task", []string{"blocked for more than", "blocked on a"}},
	{"lockup", []string{"soft lockup", "hard LOCKUP", "Hard LOCKUP"}},
	{"rcu-stall", []string{"detected stalls on CPUs", "self-detected stall"}},
	{"io-error", []string{"I/O error", "Buffer I/O error", "critical medium error",
		"lost async page write", "failed command:"}},
	{"filesystem-error", []string{"EXT4-fs error", "Remounting filesystem read-only",
		"Corruption of in-memory data", "BTRFS error", "BTRFS critical", "XFS (",
		"shutting down filesystem"}},
	{"hardware-error", []string{"Hardware Error", "Machine check events logged", "EDAC ",
		"AER: Uncorrected", "AER: Corrected"}},
	{"throttled", []string{"cpu clock throttled", "clock throttled (total events"}},
	{"link-down", []string{"Link is Down", "link down", "Link Down", "Link down"}},
	{"link-up", []string{"Link is Up", "link up", "Link Up", "Link up"}},
	{"device-reset", []string{"NETDEV WATCHDOG", "transmit queue", "Reset adapter",
		"resetting link", "hard resetting", "timeout, aborting", "timeout, reset controller"}},
	{"table-full", []string{"nf_conntrack: table full", "neighbour table overflow",
		"neighbor table overflow"}},
	{"syn-flood", []string{"Possible SYN flooding"}},
	{"allocation-failure", []string{"page allocation failure", "allocation stalls for"}},
	{"server-lost", []string{"not responding"}},
	{"server-back", []string{"nfs: server", "CIFS: VFS: "}},
	{"bug", []string{"BUG: ", "WARNING: CPU:", "kernel BUG at", "Oops: "}},
}

// needs narrows events whose texts also occur in messages that mean nothing.
//
// table: further texts of events
var needs = map[string][]string{
	"filesystem-error": {"rror", "orrupt", "read-only", "hutting down", "ritical"},
	"server-back":      {"OK", "econnect"},
	"hung-task":        {"seconds"},
	"device-reset":     {"timed out", "eset", "timeout"},
}

// eventOf returns the event of a message.
func eventOf(text []byte) string {
	has := func(part string) bool { return bytes.Contains(text, []byte(part)) }
	any := func(parts []string) bool {
		for _, p := range parts {
			if has(p) {
				return true
			}
		}
		return false
	}
	if any(crash.texts) {
		return crash.event
	}
	for _, f := range events {
		if any(f.texts) && (needs[f.event] == nil || any(needs[f.event])) {
			return f.event
		}
	}
	return other
}

// parseRecord parses what one read of /dev/kmsg returns:
//
//	4,1234,56789,-;EXT4-fs error (device vda): ...
//	 SUBSYSTEM=block
//
// The first number is 8 * facility + level. ok is false for messages of programs, for lines of a
// trace of calls and registers, and for what is neither a warning nor an event.
// Documentation/ABI/testing/dev-kmsg.
func parseRecord(b []byte, masks *measure.Masker) (r record, ok bool) {
	head, text, found := bytes.Cut(b, []byte(";"))
	if !found {
		return r, false
	}
	number, _, _ := bytes.Cut(head, []byte(","))
	priority, err := proc.ParseUint(number)
	if err != nil || priority > levelDebug { // facility 0 is the kernel
		return r, false
	}
	r.level = int(priority)
	text, _, _ = bytes.Cut(text, []byte("\n"))
	if isTrace(text) {
		return r, false
	}
	if r.event = eventOf(text); r.event == other && r.level > levelWarning {
		return r, false
	}
	r.text = neutral(text, masks)
	return r, len(r.text) > 0
}

// isTrace reports whether a line is of a trace of calls, registers or memory, which follows a
// message that is recorded. Registers may contain anything.
func isTrace(text []byte) bool {
	if len(text) == 0 || text[0] == ' ' || text[0] == '\t' || text[0] == '<' {
		return true
	}
	for _, begin := range traceBegins {
		if bytes.HasPrefix(text, []byte(begin)) {
			return true
		}
	}
	return false
}

// table: how lines of traces begin (arch/*/kernel/dumpstack.c, process.c; mm/show_mem.c)
var traceBegins = []string{
	"Call Trace", "Call trace", "Modules linked in", "CPU: ", "Hardware name", "RIP:", "RSP:",
	"RAX:", "RDX:", "RBP:", "R10:", "R13:", "FS:", "CS:", "CR2:", "DR0:", "DR3:", "PKRU:", "Code:",
	"EIP:", "EAX:", "ESI:", "DS:", "ORIG_RAX", "? ", "---[", "-----", "=====", "Workqueue:",
	"Tainted:", "pc : ", "lr : ", "sp : ", "x0 : ", "x1 : ", "x2 : ", "pstate:", "Stack:", "task:",
	"Mem-Info", "Node ", "DMA", "Normal", "lowmem_reserve", "active_anon", "Tasks state", "[  pid",
}

// neutral returns the text as one printable line without what it may tell of memory and secrets:
// addresses, passwords, tokens. It is at most maxText bytes long.
func neutral(text []byte, masks *measure.Masker) []byte {
	out := make([]byte, 0, min(len(text), 4*maxText))
	for _, c := range text[:min(len(text), 4*maxText)] {
		if c < ' ' || c > '~' {
			c = '?'
		}
		out = append(out, c)
	}
	out = masks.Mask(withoutAddresses(out))
	out = bytes.TrimSpace(out)
	if len(out) > maxText {
		out = append(bytes.Clone(out[:maxText-3]), "..."...)
	}
	return out
}

// leastAddress is the smallest number of hexadecimal digits of an address.
const leastAddress = 9

// withoutAddresses replaces words of hexadecimal digits that may be addresses by 0x***. Decimal
// numbers, such as of sectors, have fewer than 16 digits and stay.
func withoutAddresses(text []byte) []byte {
	var out []byte
	for from := 0; from < len(text); {
		end := from
		for end < len(text) && isWord(text[end]) {
			end++
		}
		if end == from {
			out = append(out, text[from])
			from++
			continue
		}
		word := text[from:end]
		digits := strings.TrimPrefix(string(word), "0x")
		if isAddress(digits) {
			out = append(out, "0x***"...)
		} else {
			out = append(out, word...)
		}
		from = end
	}
	return out
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

// isAddress reports whether a word is hexadecimal and too long for anything but an address.
func isAddress(digits string) bool {
	if len(digits) < leastAddress {
		return false
	}
	letters := false
	for i := range len(digits) {
		c := digits[i] | ' '
		switch {
		case c >= 'a' && c <= 'f':
			letters = true
		case c < '0' || c > '9':
			return false
		}
	}
	return letters || len(digits) >= 16
}
