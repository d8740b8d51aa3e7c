package captured

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

var linkMode = regexp.MustCompile(`(\d+)base[\w-]*(?:/(Half|Full))?`)

// linkColumns are the columns of tables of links; speeds in bit/s.
var linkColumns = [...]string{"device", "speed", "supported", "advertised", "partner", "duplex",
	"link", "autoneg"}

// link returns the row of the interface that the block describes.
func (r *reader) link(tool, device string) *Row {
	t := r.block(Links, tool, linkColumns[:]...)
	for _, row := range t.Rows {
		if row.Cells[0] == device {
			return row
		}
	}
	return r.put(t, device, "", "", "", "", "", "", "")
}

func (row *Row) set(column, value string, line int) {
	row.Cells[row.Table.index(column)] = value
	row.Line = line
}

// ethtool reads the settings of an interface.
func (r *reader) ethtool(line string, fields []string) bool {
	if name, ok := strings.CutPrefix(line, "Settings for "); ok {
		r.facts["link"], r.facts["list"], r.table = strings.TrimSuffix(name, ":"), "", nil
		return true
	}
	key, value, named := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	lists := map[string]string{"Supported link modes": "supported",
		"Advertised link modes": "advertised", "Link partner advertised link modes": "partner"}
	list, isList := lists[key]
	switch {
	case named && isList:
		r.facts["list"] = list
	case named && (key == "Speed" || key == "Duplex" || key == "Link detected" ||
		key == "Auto-negotiation"):
		return r.linkFact(key, value)
	case named:
		r.facts["list"] = ""
		return r.nicCounter(line, fields)
	case r.facts["list"] == "":
		return false
	}
	modes := linkMode.FindAllStringSubmatch(line, -1)
	if len(modes) == 0 {
		r.facts["list"] = ""
		return false
	}
	device := r.device()
	for _, m := range modes {
		v, _ := number(m[1])
		row := r.link("ethtool", device)
		if old := row.Num(r.facts["list"]); !(old >= v*1e6) {
			row.set(r.facts["list"], formatNumber(v*1e6), r.line)
		}
	}
	return true
}

// device returns the interface of a block: named by its head, or by the command.
func (r *reader) device() string {
	if d := r.facts["link"]; d != "" {
		return d
	}
	if strings.Contains(r.command, "ethtool") {
		return r.facts["argument"]
	}
	return ""
}

func (r *reader) linkFact(key, value string) bool {
	switch key {
	case "Speed":
		if !strings.Contains(value, "b/s") {
			return strings.HasPrefix(value, "Unknown")
		}
		digits := strings.TrimRight(value, "MGbkits/ ")
		v, ok := number(digits)
		if !ok {
			return strings.HasPrefix(value, "Unknown")
		}
		v *= 1e6
		if strings.Contains(value, "Gb") {
			v *= 1e3
		}
		r.link("ethtool", r.device()).set("speed", formatNumber(v), r.line)
	case "Duplex":
		r.link("ethtool", r.device()).set("duplex", strings.ToLower(value), r.line)
	case "Link detected":
		r.link("ethtool", r.device()).set("link", value, r.line)
	case "Auto-negotiation":
		r.link("ethtool", r.device()).set("autoneg", value, r.line)
	}
	return true
}

// nicCounter reads a counter of ethtool -S: "rx_missed_errors: 12".
func (r *reader) nicCounter(line string, fields []string) bool {
	if line == "NIC statistics:" {
		r.facts["statistics"] = "yes"
		return true
	}
	if r.facts["statistics"] == "" || len(fields) != 2 {
		return false
	}
	if _, ok := number(fields[1]); !ok {
		return false
	}
	t := r.block(Counters, "ethtool", "name", "value")
	t.Subject = r.device()
	r.put(t, strings.TrimSuffix(fields[0], ":"), fields[1])
	return true
}

// dladm reads show-linkprop -p speed and show-phys.
func (r *reader) dladm(_ string, fields []string) bool {
	n := len(fields)
	if n >= 3 && fields[1] == "speed" {
		speed, best := math.NaN(), math.NaN()
		for _, f := range fields[2:] {
			if v, ok := number(f); ok && speed != speed && !strings.Contains(f, ",") {
				speed = v
			}
			if strings.Contains(f, ",") {
				for s := range strings.SplitSeq(f, ",") {
					if v, ok := number(s); ok && !(v <= best) {
						best = v
					}
				}
			}
		}
		if speed != speed {
			return false
		}
		row := r.link("dladm", fields[0])
		row.set("speed", formatNumber(speed*1e6), r.line)
		if best == best {
			row.set("supported", formatNumber(best*1e6), r.line)
		}
		return true
	}
	if n == 6 && fields[1] == "Ethernet" {
		if v, ok := number(fields[3]); ok {
			row := r.link("dladm", fields[0])
			row.set("speed", formatNumber(v*1e6), r.line)
			row.set("duplex", fields[4], r.line)
			return true
		}
	}
	return false
}

var (
	flagsLine = regexp.MustCompile(`^(\S+?):? flags=\w+<([A-Za-z0-9_,]*)>`)
	ipLine    = regexp.MustCompile(`^\d+: (\S+?):? <([A-Z0-9_,-]*)> mtu \d+`)
	encapLine = regexp.MustCompile(`^(\S+)\s+Link encap:`)
)

// address returns the row of flags and addresses of the interface of the block.
func (r *reader) address(tool string) *Row {
	t := r.block(Addresses, tool, "device", "flags", "inet", "ether")
	return t.Rows[len(t.Rows)-1]
}

// ifconfig reads flags and addresses of interfaces, of Solaris and of Linux, and counters.
func (r *reader) ifconfig(line string, fields []string) bool {
	if containsAny(line, "flags=", "Link encap") {
		if m := flagsLine.FindStringSubmatch(line); m != nil {
			return r.newDevice("ifconfig", m[1], m[2])
		}
		if m := encapLine.FindStringSubmatch(line); m != nil {
			return r.newDevice("ifconfig", m[1], "")
		}
	}
	if r.facts["tool"] != "ifconfig" {
		return false
	}
	row := r.address("ifconfig")
	switch {
	case len(fields) > 1 && (fields[0] == "inet" || fields[0] == "inet6"):
		if row.Cells[2] == "" {
			row.Cells[2] = strings.TrimPrefix(fields[1], "addr:")
		}
	case len(fields) > 1 && fields[0] == "ether":
		row.Cells[3] = fields[1]
	case strings.HasPrefix(line, "RX ") || strings.HasPrefix(line, "TX "):
		r.ifconfigCounters(row.Cells[0], fields)
	default:
		return strings.Contains(line, "txqueuelen") || strings.HasPrefix(line, "collisions")
	}
	return true
}

func (r *reader) newDevice(tool, device, flags string) bool {
	t := r.block(Addresses, tool, "device", "flags", "inet", "ether")
	r.put(t, device, flags, "", "")
	r.facts["tool"], r.table = tool, nil
	return true
}

// ifconfigCounters reads "RX packets 12 bytes 345" and "RX packets:12 errors:0 dropped:0".
func (r *reader) ifconfigCounters(device string, fields []string) {
	way := strings.ToLower(fields[0])
	words := strings.Fields(strings.ReplaceAll(strings.Join(fields[1:], " "), ":", " "))
	for i := 0; i+1 < len(words); i++ {
		if _, ok := number(words[i+1]); ok {
			r.total("ifconfig", device, way+words[i], words[i+1])
		}
	}
}

var totalColumns = [...]string{"device", "rxpackets", "txpackets", "rxerrors", "txerrors",
	"rxdropped", "txdropped", "rxoverruns", "rxbytes", "txbytes", "collisions"}

// total sets a counter of an interface, if it is one of totalColumns.
func (r *reader) total(tool, device, name, value string) {
	t := r.block(Totals, tool, totalColumns[:]...)
	i := t.index(name)
	if i < 0 {
		return
	}
	if n := len(t.Rows); n == 0 || t.Rows[n-1].Cells[0] != device {
		r.put(t, append([]string{device}, make([]string, len(totalColumns)-1)...)...)
	}
	row := t.Rows[len(t.Rows)-1]
	row.Cells[i] = value
	row.Line = r.line
}

// ipLink reads "ip -s link" and "ip addr".
func (r *reader) ipLink(line string, fields []string) bool {
	if m := ipLine.FindStringSubmatch(line); m != nil && strings.Contains(line, "mtu") {
		name, _, _ := strings.Cut(m[1], "@")
		return r.newDevice("ip", name, m[2])
	}
	if r.facts["tool"] != "ip" {
		return false
	}
	row := r.address("ip")
	switch {
	case strings.HasPrefix(line, "link/") && len(fields) > 1:
		row.Cells[3] = fields[1]
	case fields[0] == "inet" || fields[0] == "inet6":
		if row.Cells[2] == "" && len(fields) > 1 {
			row.Cells[2] = fields[1]
		}
	case fields[0] == "RX:" || fields[0] == "TX:":
		r.facts["counters"] = strings.Join(fields, " ")
	case r.facts["counters"] != "":
		names := strings.Fields(r.facts["counters"])
		r.facts["counters"] = ""
		way := strings.ToLower(strings.TrimSuffix(names[0], ":"))
		for i, f := range fields {
			if _, ok := number(f); !ok {
				return false
			}
			if i+1 < len(names) {
				r.total("ip", row.Cells[0], way+names[i+1], f)
			}
		}
	default:
		return strings.HasPrefix(line, "valid_lft")
	}
	return true
}
