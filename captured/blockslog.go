package captured

import (
	"regexp"
	"strings"

	"culprit/diagnose"
)

// A message is what the kernel writes to its log when something fails. The groups of its text are
// name, which is what failed, and detail.
type message struct {
	event    string // of its rows
	hint     string // each of its lines has this text
	text     *regexp.Regexp
	severity diagnose.Severity
	least    int    // of them are a finding
	rule     string // of the finding
	kind     string // of the culprit
	claim    string // with {name}, {detail} and {n}, as in "3 times"
}

// messages are the messages of Linux that a rule understands. Where several texts fit, the first
// counts.
func messages() []message {
	text := regexp.MustCompile
	const high, medium, low = diagnose.High, diagnose.Medium, diagnose.Low
	return []message{
		{"killed in its group", "emory cgroup out of memory", text(`Memory cgroup out of memory: ` +
			`Kill(?:ed)? process \d+ \((?P<name>[^)]*)\)`), high, 1, "memory-pressure", "process",
			"The kernel killed {name} {n}: its control group had no memory left."},
		{"killed", "ut of memory: Kill", text(`Out of memory: Kill(?:ed)? process \d+ ` +
			`\((?P<name>[^)]*)\)`), high, 1, "memory-pressure", "process",
			"The kernel killed {name} {n}: the machine had no memory left."},
		{"allocation failed", "page allocation failure", text(`(?P<name>[^\s:\]]+): page ` +
			`allocation failure: order:(?P<detail>\d+)`), medium, 1, "memory-pressure", "process",
			"The kernel had no {detail}-order pages for {name} {n}."},
		{"blocked", "blocked for more than", text(`task (?P<name>\S+?):\d+ blocked for more than ` +
			`(?P<detail>\d+) seconds`), high, 1, "tasks-blocked", "process",
			"{name} was blocked for more than {detail} s {n}."},
		{"lockup", "soft lockup", text(`soft lockup - CPU#(?P<name>\d+) stuck for (?P<detail>\d+)s`),
			high, 1, "cpu-lockup", "cpu",
			"CPU {name} ran kernel code for {detail} s without a pause {n}."},
		{"stall", "detected stall", text(`rcu\S*:? .*(?:self-)?detected stalls? on CPUs?` +
			`(?:/tasks)?`), high, 1, "cpu-lockup", "host",
			"CPUs did not pass through the scheduler for seconds (RCU stall) {n}."},
		{"conntrack full", "table full, dropping", text(`nf_conntrack: .*table full, dropping ` +
			`packet`), high, 1, "table-full", "table",
			"The table of tracked connections was full and dropped packets {n}."},
		{"neighbours full", "table overflow", text(`(?P<name>neighbour|arp_cache|ndisc_cache): ` +
			`.*table overflow`), high, 1, "table-full", "table",
			"The table of neighbours was full {n}: hosts of the link could not be reached."},
		{"flood", "SYN flooding on port", text(`Possible SYN flooding on port ` +
			`(?P<name>[^\s]+?)\.? (?P<detail>Sending cookies|Dropping request)`), medium, 1,
			"tcp-listen-overflow", "listener",
			"The queue of the listener at port {name} was full ({detail}) {n}."},
		{"tcp memory", "TCP: out of memory", text(`TCP: out of memory -- consider tuning tcp_mem`),
			high, 1, "limit-reached", "host", "TCP reached its memory limit (tcp_mem) {n}."},
		{"files", "file-max limit", text(`VFS: file-max limit (?P<detail>\d+) reached`), high, 1,
			"limit-reached", "host", "All {detail} open files of the machine were in use {n}."},
		{"forks", "rejected by pids", text(`fork rejected by pids controller in (?P<name>\S+)`),
			high, 1, "limit-reached", "cgroup", "{name} reached its limit of processes {n}."},
		{"array", "isk failure on", text(`md/raid\S*: Disk failure on (?P<name>\w+)`), high, 1,
			"array-degraded", "disk", "The array works without {name}, which failed {n}."},
		{"disk error", "/O error", text(`(?:I/O error, dev|I/O error on dev(?:ice)?) ` +
			`(?P<name>[\w-]+)`), high, 1, "disk-fails", "disk", "{name} returned I/O errors {n}."},
		{"disk timeout", "timeout", text(`(?P<name>nvme\w+): I/O .*\btimeout`), high, 1,
			"disk-hangs", "disk", "Requests to {name} were not answered in time {n}."},
		{"link reset", "ata", text(`(?P<name>ata\d+)(?:\.\d+)?: (?:exception Emask|hard resetting ` +
			`link|failed command)`), medium, 1, "disk-fails", "disk",
			"The disk at {name} did not answer and was reset {n}."},
		{"filesystem", "error", text(`(?:EXT4-fs|EXT3-fs|BTRFS) error \(device (?P<name>[^):]+)\)?`),
			high, 1, "filesystem-fails", "filesystem",
			"The file system on {name} found errors in its own data {n}."},
		{"filesystem", "orruption", text(`XFS \((?P<name>\S+?)\): .*[Cc]orruption`), high, 1,
			"filesystem-fails", "filesystem",
			"The file system on {name} found errors in its own data {n}."},
		{"read-only", "emounting filesystem read-only", text(`\((?P<name>\S+?)\): Remounting ` +
			`filesystem read-only`), high, 1, "filesystem-fails", "filesystem",
			"The file system on {name} became read-only {n}."},
		{"nfs", "not responding", text(`nfs: server (?P<name>\S+) not responding`), high, 1,
			"tasks-blocked", "server", "The NFS server {name} did not answer {n}."},
		{"transmit", "NETDEV WATCHDOG", text(`NETDEV WATCHDOG: (?P<name>\S+).*timed out`), high, 1,
			"net-drops", "interface", "{name} did not send for seconds and was reset {n}."},
		{"link down", "ink is", text(`\b(?P<name>\w[\w.-]*):? (?:NIC )?[Ll]ink is [Dd]own`), medium,
			2, "link-unsteady", "interface", "The link of {name} went down {n}."},
		{"link slow", "ink is", text(`\b(?P<name>\w[\w.-]*):? (?:NIC )?[Ll]ink is [Uu]p\W+(?:at )?` +
			`(?P<detail>(?:10|100) ?Mbps.*?(?:[Ff]ull|[Hh]alf)?[ -]?[Dd]uplex)`), medium, 1,
			"link-below-mode", "interface", "The link of {name} came up with {detail} {n}."},
		{"clock", "clocksource", text(`Marking clocksource '(?P<name>\w+)' as unstable`), medium, 1,
			"clock-slow", "host",
			"The kernel found the clock {name} unstable and reads the time from a slower one."},
		{"throttled", "cpu clock throttled", text(`CPU(?P<name>\d+): .*temperature.* above ` +
			`threshold, cpu clock throttled`), medium, 1, "cpu-throttled", "cpu",
			"CPU {name} was slowed because of its temperature {n}."},
		{"hardware", "Hardware Error", text(`\[Hardware Error\]`), high, 1, "hardware-fails",
			"host", "The hardware reported errors {n} (machine check)."},
		{"crash", "segfault at", text(`(?P<name>[^\s\[\]:]+)\[\d+\]: segfault at`), low, 1,
			"program-crashes", "process", "{name} crashed {n} (segmentation fault)."},
	}
}

// logLine is the beginning of a line of dmesg or of a system log.
var logLine = regexp.MustCompile(
	`^(?:<\d+>|\w+\s*:\w+\s*: )?\[(?: *\d+\.\d{3,9}|\w{3} \w{3} .{14,18})\] ` +
		`|^(?:\w{3} \d{1,2} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) \S+ kernel: ` +
		`(?:\[ *\d+\.\d+\] )?`)

// log reads a line of the kernel's log. Only those with an event are rows, and the first one.
func (r *reader) log(line string, _ []string) bool {
	at := logLine.FindStringIndex(line)
	if at == nil {
		return false
	}
	t := r.block(Log, "the kernel log", "event", "name", "detail", "time", "text")
	text := line[at[1]:]
	row := []string{"", "", "", strings.TrimSpace(line[:at[1]]), shorten(text)}
	for i := range r.messages {
		m := &r.messages[i]
		if !strings.Contains(text, m.hint) {
			continue
		}
		found := m.text.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		row[0] = m.event
		for i, group := range m.text.SubexpNames() {
			switch group {
			case "name":
				row[1] = shorten(found[i])
			case "detail":
				row[2] = shorten(found[i])
			}
		}
		break
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
