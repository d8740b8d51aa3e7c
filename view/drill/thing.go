package drill

import (
	"slices"
	"strings"

	"culprit/measure"
)

// thing is what a row is about.
type thing string

// The things.
const (
	thread    thing = "thread"
	process   thing = "process"
	client    thing = "client" // of the NFS server
	operation thing = "operation"
	peer      thing = "peer"
	iface     thing = "interface"
	disk      thing = "disk"
	mount     thing = "mount"
	cpu       thing = "cpu"
	cgroup    thing = "cgroup"
	irq       thing = "irq"
	call      thing = "call" // a system call
)

// order lists the things, the most specific first: questions about them come in this order.
//
// table: the things
var order = []thing{
	thread, process, client, operation, peer, iface, disk, mount, cpu, cgroup, irq, call,
}

// fieldsOf lists the fields by which a thing is named, the namespace of an interface among them.
//
// table: thing, fields
var fieldsOf = map[thing][]string{
	thread: {"tid", "thread"}, process: {"process", "pid"}, client: {"client"},
	operation: {"operation"}, peer: {"peer"}, iface: {"netns", "device"}, disk: {"device"},
	mount: {"mount"}, cpu: {"cpu"}, cgroup: {"cgroup"}, irq: {"irq"}, call: {"syscall"},
}

func subsystem(id measure.StatID) string {
	first, _, _ := strings.Cut(string(id), ".")
	return first
}

// thingOf returns what the values of a field name; "" if they name no thing.
func thingOf(id measure.StatID, field string) thing {
	switch field {
	case "device":
		switch subsystem(id) {
		case "net":
			return iface
		case "disk", "cgroup":
			return disk
		}
	case "client", "operation":
		if subsystem(id) == "nfs" {
			return thing(field)
		}
	case "netns": // part of the name of an interface, no thing of its own
	default:
		for _, t := range order {
			if slices.Contains(fieldsOf[t], field) {
				return t
			}
		}
	}
	return ""
}

// everywhere lists the fields whose values mean the same in every statistic.
//
// table: fields
var everywhere = []string{
	"netns", "process", "pid", "tid", "thread", "cpu", "cgroup", "peer", "peerport", "local",
	"localport", "mount", "irq", "cache", "syscall",
}

// meaning returns a text that is equal for two fields with the same values.
func meaning(id measure.StatID, f measure.Field) string {
	family := map[string]string{"net": "net", "tcp": "net", "disk": "disk", "cgroup": "disk"}
	group := family[subsystem(id)]
	switch {
	case slices.Contains(everywhere, f.Name):
		return f.Name
	case (f.Name == "device" || f.Name == "direction") && group != "":
		return group + " " + f.Name
	case f.Help != "":
		return f.Name + ": " + f.Help
	}
	return string(id) + " " + f.Name
}

// perNamespace lists the fields whose values are unique within a network namespace only: each has
// an eth0 and a 127.0.0.1 of its own.
//
// table: fields
var perNamespace = []string{"device", "address", "local", "localport", "peer", "peerport"}

// IsThing reports whether the values of a field name things of one kind, which may be compared with
// each other. Ports and namespaces are parts of such names.
func IsThing(id measure.StatID, field string) bool {
	return thingOf(id, field) != "" || slices.Contains(
		[]string{"netns", "local", "localport", "peerport", "cache", "device", "mount"}, field)
}
