package captured

import (
	"regexp"
	"strings"
)

var (
	procLoad     = regexp.MustCompile(`^([\d.]+) ([\d.]+) ([\d.]+) \d+/\d+ \d+$`)
	procPressure = regexp.MustCompile(`^(?:(\w+): ?)?(some|full) avg10=([\d.]+) avg60=([\d.]+)`)
)

// procFile reads meminfo, loadavg, pressure, net/dev, net/snmp and net/netstat.
func (r *reader) procFile(line string, fields []string) bool {
	if len(fields) == 5 {
		if m := procLoad.FindStringSubmatch(line); m != nil {
			r.put(r.block(Load, "/proc/loadavg", "load1", "load5", "load15"), m[1], m[2], m[3])
			return true
		}
	}
	if strings.Contains(line, "avg10") {
		if m := procPressure.FindStringSubmatch(line); m != nil {
			r.put(r.block(Pressure, "/proc/pressure", "resource", "kind", "avg10", "avg60"),
				r.pressureOf(m[1]), m[2], m[3], m[4])
			return true
		}
	}
	if len(fields) == 3 && fields[2] == "kB" && strings.HasSuffix(fields[0], ":") {
		if _, ok := number(fields[1]); ok {
			t := r.block(Counters, "/proc/meminfo", "name", "value")
			r.put(t, strings.TrimSuffix(fields[0], ":"), fields[1])
			return true
		}
	}
	return r.snmp(fields) || r.netDev(line)
}

// pressureOf returns the resource of a file of /proc/pressure: of its command or file name.
func (r *reader) pressureOf(label string) string {
	if label != "" {
		return label
	}
	for _, name := range []string{"memory", "cpu", "io"} {
		if strings.HasSuffix(r.command, "pressure/"+name) || strings.HasSuffix(r.File, name) ||
			strings.HasSuffix(r.File, name+".txt") {
			return name
		}
	}
	return ""
}

// snmp reads pairs of lines "Tcp: name name" and "Tcp: 1 2".
func (r *reader) snmp(fields []string) bool {
	switch fields[0] {
	case "Tcp:", "TcpExt:", "Udp:", "Ip:":
	default:
		return false
	}
	if len(fields) < 5 {
		return false
	}
	if _, ok := number(fields[1]); !ok {
		r.facts[fields[0]] = strings.Join(fields, " ")
		return true
	}
	names := strings.Fields(r.facts[fields[0]])
	if len(names) != len(fields) {
		return false
	}
	delete(r.facts, fields[0])
	prefix := ""
	if fields[0] == "Udp:" {
		prefix = "Udp"
	}
	for i := 1; i < len(fields); i++ {
		name := prefix + names[i]
		if name == "UdpInDatagrams" {
			name = "InDatagrams"
		}
		r.counter("/proc/net/snmp", name, fields[i])
	}
	return true
}

// netDev reads a row of /proc/net/dev: a name and 16 counters.
func (r *reader) netDev(line string) bool {
	device, rest, ok := strings.Cut(line, ":")
	f := strings.Fields(rest)
	if !ok || len(f) != 16 {
		return false
	}
	for _, s := range f {
		if _, is := number(s); !is {
			return false
		}
	}
	names := []string{"rxbytes", "rxpackets", "rxerrors", "rxdropped", "rxoverruns", "", "", "",
		"txbytes", "txpackets", "txerrors", "txdropped", "", "collisions"}
	t := r.snapshot(Totals, "/proc/net/dev", device, totalColumns[:]...)
	r.put(t, append([]string{device}, make([]string, len(totalColumns)-1)...)...)
	for i, n := range names {
		if n != "" {
			r.total("/proc/net/dev", device, n, f[i])
		}
	}
	return true
}
