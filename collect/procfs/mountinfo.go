package procfs

import (
	"strings"

	"culprit/kernel/proc"
)

// Mount is one line of /proc/PID/mountinfo.
type Mount struct {
	ID                 string // of this mount, as mnt_id in /proc/PID/fdinfo
	Number             string // major:minor of the file system
	Path, Source, Type string
	Root               string // mounted path within the file system: "/" for all of it
	Options            string // of the file system itself
	ReadOnly           bool   // this mount of it is read-only, by its own options
}

// ParseMounts parses /proc/PID/mountinfo (proc_pid_mountinfo(5)): one mount for each line, in the
// order of mounting. It skips malformed lines.
//
//	27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
func ParseMounts(b []byte) []Mount {
	var all []Mount
	var text []byte
	word := func(w []byte) string {
		text = proc.AppendUnescaped(text[:0], w)
		return string(text)
	}
	for len(b) > 0 {
		var line []byte
		line, b = CutLine(b)
		c := proc.Scan(line)
		var m Mount
		m.ID = string(c.Word())
		c.Skip(1)
		m.Number = string(c.Word())
		m.Root = word(c.Word())
		m.Path = word(c.Word())
		options, _, _ := strings.Cut(string(c.Word()), ",") // ro or rw comes first
		m.ReadOnly = options == "ro"
		for w := c.Word(); w != nil && string(w) != "-"; w = c.Word() {
		}
		m.Type = word(c.Word())
		m.Source = word(c.Word())
		m.Options = word(c.Word())
		if m.Type != "" && strings.HasPrefix(m.Path, "/") {
			all = append(all, m)
		}
	}
	return all
}
