package kernelmessage

import (
	"regexp"

	"culprit/diagnose"
)

// Messages returns the messages of Linux that the diagnosis understands. Where several texts fit,
// the first counts.
func Messages() []Message {
	text := regexp.MustCompile
	const high, medium, low = diagnose.High, diagnose.Medium, diagnose.Low
	return []Message{
		// First: the name of a program may have words of other messages.
		{"crash", "segfault at", text(`^(?P<name>.{1,15}?)\[\d+\]: segfault at`), low, 1,
			"program-crashes", "process", "{name} crashed {n} (segmentation fault).", nil},
		{"trap", "traps: ", text(`^traps: (?P<name>.{1,15}?)\[\d+\] (?P<detail>general protection|` +
			`trap [a-z ]+?)(?: fault)?(?: ip:|$)`), low, 1, "program-crashes", "process",
			"{name} crashed {n} ({detail}).", nil},
		{"killed in its group", "emory cgroup out of memory", text(`Memory cgroup out of memory: ` +
			`Kill(?:ed)? process \d+ \((?P<name>[^)]*)\)`), high, 1, "memory-pressure", "process",
			"The kernel killed {name} {n}: its control group had no memory left.", nil},
		{"killed", "ut of memory: Kill", text(`Out of memory: Kill(?:ed)? process \d+ ` +
			`\((?P<name>[^)]*)\)`), high, 1, "memory-pressure", "process",
			"The kernel killed {name} {n}: the machine had no memory left.", nil},
		{"allocation failed", "page allocation failure", text(`(?P<name>[^\s:\]]+): page ` +
			`allocation failure: order:(?P<detail>\d+)`), medium, 1, "memory-pressure", "process",
			"The kernel had no {detail}-order pages for {name} {n}.", nil},
		{"blocked", "blocked for more than", text(`task (?P<name>\S+?):\d+ blocked for more than ` +
			`(?P<detail>\d+) seconds`), high, 1, "tasks-blocked", "process",
			"{name} was blocked for more than {detail} s {n}.", nil},
		{"lockup", "soft lockup", text(`soft lockup - CPU#(?P<name>\d+) stuck for (?P<detail>\d+)s`),
			high, 1, "cpu-lockup", "cpu",
			"CPU {name} ran kernel code for {detail} s without a pause {n}.", nil},
		{"stall", "detected stall", text(`rcu\S*:? .*(?:self-)?detected stalls? on CPUs?` +
			`(?:/tasks)?`), high, 1, "cpu-lockup", "host",
			"CPUs did not pass through the scheduler for seconds (RCU stall) {n}.", nil},
		{"conntrack full", "table full, dropping", text(`nf_conntrack: .*table full, dropping ` +
			`packet`), high, 1, "table-full", "table",
			"The table of tracked connections was full and dropped packets {n}.", nil},
		{"neighbours full", "table overflow", text(`(?P<name>neighbour|arp_cache|ndisc_cache): ` +
			`.*table overflow`), high, 1, "table-full", "table",
			"The table of neighbours was full {n}: hosts of the link could not be reached.", nil},
		{"flood", "SYN flooding on port", text(`Possible SYN flooding on port ` +
			`(?P<name>[^\s]+?)\.? (?P<detail>Sending cookies|Dropping request)`), medium, 1,
			"tcp-listen-overflow", "listener",
			"The queue of the listener at port {name} was full ({detail}) {n}.", nil},
		{"tcp memory", "TCP: out of memory", text(`TCP: out of memory -- consider tuning tcp_mem`),
			high, 1, "limit-reached", "host", "TCP reached its memory limit (tcp_mem) {n}.", nil},
		{"files", "file-max limit", text(`VFS: file-max limit (?P<detail>\d+) reached`), high, 1,
			"limit-reached", "host", "All {detail} open files of the machine were in use {n}.",
			nil},
		{"forks", "rejected by pids", text(`fork rejected by pids controller in (?P<name>\S+)`),
			high, 1, "limit-reached", "cgroup", "{name} reached its limit of processes {n}.", nil},
		{"array", "isk failure on", text(`md/raid\S*: Disk failure on (?P<name>\w+)`), high, 1,
			"array-degraded", "disk", "The array works without {name}, which failed {n}.", nil},
		{"disk error", "/O error", text(`(?:I/O error, dev|I/O error on dev(?:ice)?) ` +
			`(?P<name>[\w-]+)`), high, 1, "disk-fails", "disk",
			"{name} returned I/O errors {n}.", nil},
		{"disk timeout", "timeout", text(`(?P<name>nvme\w+): I/O .*\btimeout`), high, 1,
			"disk-hangs", "disk", "Requests to {name} were not answered in time {n}.", nil},
		{"link reset", "ata", text(`(?P<name>ata\d+)(?:\.\d+)?: (?:exception Emask|hard resetting ` +
			`link|failed command)`), medium, 1, "disk-fails", "disk",
			"The disk at {name} did not answer and was reset {n}.", nil},
		{"filesystem", "error", text(`(?:EXT4-fs|EXT3-fs|BTRFS) error \(device (?P<name>[^):]+)\)?`),
			high, 1, "filesystem-fails", "filesystem",
			"The file system on {name} found errors in its own data {n}.", nil},
		{"filesystem", "orruption", text(`XFS \((?P<name>\S+?)\): .*[Cc]orruption`), high, 1,
			"filesystem-fails", "filesystem",
			"The file system on {name} found errors in its own data {n}.", nil},
		{"read-only", "emounting filesystem read-only", text(`\((?P<name>\S+?)\): Remounting ` +
			`filesystem read-only`), high, 1, "filesystem-fails", "filesystem",
			"The file system on {name} became read-only {n}.", nil},
		{"nfs", "not responding", text(`nfs: server (?P<name>\S+) not responding`), high, 1,
			"tasks-blocked", "server", "The NFS server {name} did not answer {n}.",
			text(`nfs: server (?P<name>\S+) OK`)},
		{"transmit", "NETDEV WATCHDOG", text(`NETDEV WATCHDOG: (?P<name>\S+).*timed out`), high, 1,
			"net-drops", "interface", "{name} did not send for seconds and was reset {n}.", nil},
		{"link down", "ink is", text(`\b(?P<name>\w[\w.-]*):? (?:NIC )?[Ll]ink is [Dd]own`), medium,
			2, "link-unsteady", "interface", "The link of {name} went down {n}.",
			text(`\b(?P<name>\w[\w.-]*):? (?:NIC )?[Ll]ink is [Uu]p`)},
		{"link slow", "ink is", text(`\b(?P<name>\w[\w.-]*):? (?:NIC )?[Ll]ink is [Uu]p\W+(?:at )?` +
			`(?P<detail>(?:10|100) ?Mbps.*?(?:[Ff]ull|[Hh]alf)?[ -]?[Dd]uplex)`), medium, 1,
			"link-below-mode", "interface", "The link of {name} came up with {detail} {n}.", nil},
		{"clock", "clocksource", text(`Marking clocksource '(?P<name>\w+)' as unstable`), medium, 1,
			"clock-slow", "host",
			"The kernel found the clock {name} unstable and reads the time from a slower one.",
			nil},
		{"throttled", "cpu clock throttled", text(`CPU(?P<name>\d+): .*temperature.* above ` +
			`threshold, cpu clock throttled`), medium, 1, "cpu-throttled", "cpu",
			"CPU {name} was slowed because of its temperature {n}.", nil},
		{"memory error", "EDAC ", text(`EDAC (?P<name>MC\d+): (?P<detail>\d+) UE`), high, 1,
			"hardware-fails", "memory",
			"The memory at controller {name} returned wrong data {n} (uncorrected error).", nil},
		{"memory corrected", "EDAC ", text(`EDAC (?P<name>MC\d+): (?P<detail>\d+) CE`), medium, 1,
			"hardware-fails", "memory",
			"The memory at controller {name} returned wrong data that was corrected {n}.", nil},
		{"hardware", "Hardware Error", text(`\[Hardware Error\]`), high, 1, "hardware-fails",
			"host", "The hardware reported errors {n} (machine check).", nil},
	}
}
