package captured

import (
	"path"
	"strings"
)

// InSosreport reports whether a file of a sosreport contains tables. name is the path below its
// top, with slashes: "sos_commands/process/ps_auxwww".
func InSosreport(name string) bool {
	base := path.Base(name)
	switch name {
	case "proc/meminfo", "proc/loadavg", "proc/net/dev", "proc/net/snmp", "proc/net/netstat",
		"proc/pressure/cpu", "proc/pressure/io", "proc/pressure/memory", "uptime", "free", "df",
		"ps", "netstat", "dmesg":
		return true
	}
	if !strings.HasPrefix(name, "sos_commands/") {
		return strings.HasPrefix(name, "var/log/sa/sar")
	}
	for _, prefix := range []string{"ps_aux", "free", "df_-al", "df_-ali", "ethtool_", "netstat_-s",
		"netstat_-neopa", "netstat_-W_-agn", "ip_-s_-d_link", "ip_-d_address", "uptime", "mpstat",
		"vmstat", "iostat", "sar", "nstat", "top", "ss_", "pidstat", "dmesg"} {
		if strings.HasPrefix(base, prefix) {
			return true
		}
	}
	return false
}
