package term

import (
	"fmt"
	"strings"

	"culprit/measure"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// others are commands of other tools, with what shows the same here. Names are separated by " | ".
//
// table: never changed
var others = []struct{ names, here string }{
	{"mpstat", "culprit cpu"},
	{"intrstat | turbostat", "culprit irq"},
	{"vmstat | free | smem", "culprit mem"},
	{"iostat | lsblk", "culprit disk"},
	{"nicstat | ifstat | ip | ifconfig | bmon | vnstat", "culprit nic"},
	{"ethtool | dladm | mii-tool", "culprit link"},
	{"netstat | nstat", "culprit tcp"},
	{"ss | iftop | nethogs | iptraf | tcptop | lsof", "culprit flows"},
	{"prstat | pidstat | iotop", "culprit ps"},
	{"htop | btop | nmon | glances | atop", "culprit top"},
	{"sysperfstat | uptime | w | dstat | dool | collectl", "culprit use"},
	{"lockstat", "culprit locks"},
	{"slabtop | slabinfo", "culprit caches"},
	{"dtrace | strace | ltrace | stap | truss | ftrace | trace-cmd", "culprit trace"},
	{"perf | oprofile | py-spy | pprof | gprof | valgrind", "culprit profile"},
	{"biolatency | offcputime | runqlat | opensnoop | execsnoop | biosnoop | tcplife | " +
		"tcpretrans | cachestat | funccount", "culprit trace %s"},
	{"flamegraph | flamegraph.pl | inferno | speedscope | stackcollapse", "culprit flame"},
	{"netperf | iperf | iperf3 | ping | ttcp", "culprit load"},
	{"prometheus | grafana | netdata | analytics", "culprit serve"},
	{"sar | sadf", "culprit cpu, mem, disk, nic, tcp; with --from 10:00 those of a recording"},
}

// otherTool returns what shows here what a command of another tool shows; "" if it is unknown.
func otherTool(name string) string {
	for _, o := range others {
		for known := range strings.SplitSeq(o.names, " | ") {
			if known == name {
				return strings.ReplaceAll(o.here, "%s", name)
			}
		}
	}
	return ""
}

// unknownCommand returns the error for a command that does not exist.
func unknownCommand(root *cobra.Command, name string) error {
	if here := otherTool(name); here != "" {
		return usagef("there is no command %q; use: %s", name, here)
	}
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	near := didYouMean(name, names)
	return usagef("there is no command %q%s (`culprit -h` shows all)", name, near)
}

const (
	unitsHint = "the table chooses units; --json has bytes"
	timeHint  = "each table has its time"
)

// habits are flags of other tools that commands do not have, with what to do here.
//
// table: command to flag to hint
var habits = map[string]map[string]string{
	"cpu": {
		"P": "each CPU has a row; -s shows only the line of all CPUs",
		"A": "-x adds interrupts, softirqs and context switches",
		"I": "-x adds interrupts; culprit irq lists them by device",
		"u": "the modes are always shown",
	},
	"irq": {"d": "the interval is an argument: culprit irq 1"},
	"mem": {
		"S": unitsHint, "m": "culprit caches -s shows slab caches", "d": "culprit disk shows disks",
		"t": timeHint, "a": "culprit stat 'memory.size by kind' has active and inactive memory",
		"s": "culprit stat -l lists all statistics of memory", "g": unitsHint,
	},
	"disk": {
		"x": "the columns of iostat -x are always shown; -w shows those that the terminal cuts",
		"k": unitsHint, "m": unitsHint, "t": timeHint,
		"N": "dm and md devices have their names", "c": "culprit cpu shows CPUs",
		"y": "there is no line since boot without --since-boot",
	},
	"nic": {
		"a": "all interfaces are shown; -z hides those without traffic",
		"s": "-w shows all columns, --json those that no table has",
		"x": "-w shows all columns", "U": "%Util is always shown; rx and tx are in culprit use",
		"e": "-w shows errors and drops", "S": "culprit link shows speed and duplex",
	},
	"link": {"S": "culprit stat 'net.device.errors.detail by device,reason' has errors of a device"},
	"tcp": {
		"s": "the counters are always shown; -a shows every one that changed",
		"t": "TCP is shown; -u shows UDP", "p": "culprit flows lists connections by process",
		"i": "culprit nic shows interfaces",
	},
	"flows": {
		"t": "TCP is shown; -u adds UDP",
		"P": "ports are always shown", "a": "connections without traffic: ss -a",
	},
	"ps": {
		"e": "-a shows all processes", "f": "-l shows more columns", "H": "-L shows threads",
		"T": "-L shows threads", "t": "-L shows threads", "m": "-L shows microstates of threads",
		"d": "disk columns are shown; -w shows those that the terminal cuts",
		"o": "--json has every column", "u": "--name and -p select processes",
	},
	"top": {
		"b": "culprit ps 1 prints without a screen", "d": "the interval is an argument: culprit top 1",
		"H": "-L shows threads", "c": "-l shows the command line",
		"u": "--name and -p select processes",
	},
	"profile": {
		"g": "stacks are always recorded", "a": "all processes are recorded; -p selects",
		"F": "--hz 99 samples at 99 Hz", "e": "--event cycles samples at an event",
	},
	"locks":    {"a": "all processes are recorded; -p selects", "C": "locks with waiters are recorded"},
	"stat":     {"e": "statistics are arguments; -l lists them", "a": "all processes are counted"},
	"diagnose": {"v": "--json has all checks with their evidence"},
}

// oldOptions fails if the names of culprit ps are the options of ps without a dash: aux.
func oldOptions(tool string, names []string) error {
	if tool != "ps" || len(names) == 0 {
		return nil
	}
	switch names[0] {
	case "aux", "axu", "ax", "auxf", "auxww", "axf", "axl", "ux":
		return usagef("%q: use culprit ps -a for all processes, -l for more columns", names[0])
	}
	return nil
}

// unknownFlag returns the error for a flag that a command does not have: with the nearest flag, or
// what to do here in place of a flag of another tool.
func unknownFlag(c *cobra.Command, err error) error {
	if tool := c.Flags().Arg(0); !c.HasParent() && otherTool(tool) != "" {
		return unknownCommand(c, tool)
	}
	if letter, ok := strings.CutPrefix(err.Error(), "unknown shorthand flag: '"); ok {
		letter, _, _ = strings.Cut(letter, "'")
		if hint := habits[c.Name()][letter]; hint != "" {
			return usageError{Cause: fmt.Errorf("there is no flag -%s: %s", letter, hint)}
		}
	}
	return usageError{Cause: nearFlag(c, err)}
}

// nearFlag adds the nearest flag to the "unknown flag" error of cobra.
func nearFlag(c *cobra.Command, err error) error {
	word, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return fmt.Errorf("%s (`%s -h` shows all flags)", err, c.CommandPath())
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := measure.Nearest(word, names); near != "" {
		return fmt.Errorf("unknown flag --%s; did you mean --%s?", word, near)
	}
	return fmt.Errorf("unknown flag --%s (`%s -h` shows all)", word, c.CommandPath())
}
