package kernel

// Root is where the proc and sys file systems are. Tests put a directory of captured files there.
// An empty field means /proc or /sys; the zero Root is the running kernel.
type Root struct {
	Proc, Sys string
}

// Real reports whether this is the running kernel and not a directory of captured files.
func (r Root) Real() bool { return r.Proc == "" && r.Sys == "" }

// InProc returns the path of a file below the proc root: InProc("net/snmp").
func (r Root) InProc(name string) string {
	if r.Proc == "" {
		return "/proc/" + name
	}
	return r.Proc + "/" + name
}

// InSys returns the path of a file below the sys root: InSys("class/net").
func (r Root) InSys(name string) string {
	if r.Sys == "" {
		return "/sys/" + name
	}
	return r.Sys + "/" + name
}

// Captured reports whether Proc is a directory of captured files.
func (r Root) Captured() bool { return r.Proc != "" && r.Proc != "/proc" }
