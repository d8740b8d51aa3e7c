package main

import "strconv"

// tool is a program and its task: it reports once a second until it is ended.
type tool struct {
	Group string // tools of one group do the same work
	// the command; "culprit" is the built program, "everything" its test binary, and "least" the
	// program of least.go
	Args []string
	// it reports once and ends: it is started each second, and its start is part of the cost
	Loop bool
	TTY  bool // it needs a terminal
	// the command for one interval, to measure the time beyond the interval; none: not measured
	First []string
	Over  float64 // that interval, in seconds

	Reports int // number of reports that First prints; 0: one
}

// everything is all statistics of all collectors, watched through the catalogue but not shown.
func everything(group, without string) tool {
	return tool{
		Group: group,
		Args: []string{
			"everything",
			"-test.run=^$",
			"-test.bench=^BenchmarkEverything$",
			"-test.benchtime=1000000x",
			"-step=1s",
			"-without=" + without,
		},
	}
}

// always is everything, read as by a server, which runs for hours.
func always(group string) tool {
	t := everything(group, "")
	t.Args = append(t.Args, long)
	return t
}

// ours is a culprit command with an interval.
func ours(group string, args ...string) tool {
	args = append([]string{"culprit"}, args...)
	return tool{
		Group: group,
		Args:  append(args, "1"),
		First: append(args[:len(args):len(args)], "0.2", "1"),
		Over:  0.2,
	}
}

// theirs is a classic tool; first has the further arguments with which it reports one interval.
func theirs(group string, args []string, first ...string) tool {
	t := tool{Group: group, Args: append(args[:len(args):len(args)], "1")}
	if len(first) > 0 {
		t.First, t.Over = append(args[:len(args):len(args)], first...), 1
		t.Reports, _ = strconv.Atoi(first[len(first)-1])
	}
	return t
}

const (
	inMemory       = "most resident memory" // a group
	sadc           = "/usr/lib/sysstat/sadc"
	notOfTheSystem = "process.,thread.,tcp."
	long           = "-long"
)

func worlds() []world {
	const counters = "everything but processes and connections"
	system := []tool{
		ours("network devices", "nic"),
		ours("network devices", "nic", "-w"),
		theirs("network devices", []string{"nicstat"}, "1", "2"),
		theirs("network devices", []string{"nicstat", "-x"}, "1", "2"),
		{Group: "network devices", Args: []string{"least"}},
		ours("CPUs", "cpu"),
		ours("CPUs", "cpu", "-w"),
		theirs("CPUs", []string{"mpstat", "-P", "ALL"}, "1", "1"),
		ours("interrupts", "irq"),
		ours("interrupts", "irq", "-a", "-w"),
		theirs("interrupts", []string{"mpstat", "-P", "ALL", "-I", "ALL"}, "1", "1"),
		ours("disks", "disk"),
		ours("disks", "disk", "-w"),
		theirs("disks", []string{"iostat", "-x"}, "1", "2"),
		ours("memory", "mem"),
		ours("memory", "mem", "-w"),
		theirs("memory", []string{"sar", "-r", "ALL", "-B", "-W", "-S"}, "1", "1"),
		everything(counters, notOfTheSystem),
		{Group: counters, Args: []string{sadc, "-S", "ALL", "1"}},
		theirs(counters, []string{"sar", "-A"}, "1", "1"),
	}
	processes := []tool{
		everything("everything", ""),
		always("everything"),
		ours("processes", "ps"),
		theirs("processes", []string{"pidstat", "-u", "-r", "-d", "-w", "-v"}, "1", "1"),
		{
			Group: "processes",
			Args:  []string{"top", "-b", "-d", "1"},
			First: []string{"top", "-b", "-d", "1", "-n", "2"},
			Over:  1,
		},
	}
	connections := []tool{
		everything("everything", ""),
		ours("connections", "flows"),
		{Group: "connections", Args: []string{"ss", "-tinp"}, Loop: true},
		ours("TCP counters", "tcp"),
		ours("TCP counters", "tcp", "-w"),
		theirs("TCP counters", []string{"sar", "-n", "TCP,ETCP,IP,SOCK"}, "1", "1"),
	}
	diagnosis := tool{
		Group: inMemory,
		Args:  []string{"culprit", "diagnose", "--for", "5m"},
		First: []string{"culprit", "diagnose"},
		Over:  10,
	}
	top := tool{Group: inMemory, Args: []string{"culprit", "top"}, TTY: true}
	all := []world{
		{Name: "system", Processes: 10, Connections: 10, Tools: system, Starts: true},
		{Name: "100 devices", Processes: 10, Connections: 10, Devices: 100, Tools: system[:5]},
		{Name: "10 processes", Processes: 10, Connections: 10, Tools: processes},
		{Name: "500 processes", Processes: 500, Connections: 10, Tools: processes, Starts: true},
		{Name: "5,000 processes", Processes: 5000, Connections: 10, Tools: processes},
		{Name: "10 connections", Processes: 10, Connections: 10, Tools: connections},
		{Name: "1,000 connections", Processes: 10, Connections: 1000, Tools: connections},
		{
			Name:        "20,000 connections",
			Processes:   10,
			Connections: 20000,
			Tools:       connections,
			Starts:      true,
		},
		{
			Name:        "500 processes, 20,000 connections",
			Processes:   500,
			Connections: 20000,
			Starts:      true,
			Tools: []tool{
				everything("everything", ""),
				diagnosis,
				top,
				ours(inMemory, "ps"),
				ours(inMemory, "flows"),
			},
		},
		{
			Name:        "500 processes, 20,000 that move",
			Processes:   500,
			Connections: 20000,
			Still:       1,
			Starts:      true,
			Tools:       []tool{diagnosis, ours(inMemory, "flows")},
		},
		{Name: "server", Processes: 600, Connections: 200, Still: 1, Devices: 10, Serve: true},
		{
			Name:        "server, 10 namespaces",
			Processes:   600,
			Connections: 200,
			Still:       1,
			Devices:     10,
			Namespaces:  10,
			Serve:       true,
			Resident:    80,
		},
		{
			Name:        "server, 10 namespaces, programs",
			Processes:   600,
			Connections: 200,
			Still:       1,
			Devices:     10,
			Namespaces:  10,
			Programs:    30,
			Serve:       true,
			Resident:    80,
		},
		{
			Name:        "server, 10,000 processes, 1,000 namespaces",
			Processes:   10000,
			Connections: 200,
			Namespaces:  1000,
			Serve:       true,
			Resident:    120,
		},
		{Name: "server, 20,000 connections", Processes: 20, Connections: 20000, Serve: true},
	}
	for i := range all {
		if all[i].Still == 0 {
			all[i].Still = 10
		}
	}
	return all
}
