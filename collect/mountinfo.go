package collect

import (
	"strings"

	"culprit/kernel"
)

// mountEntry is a line of mountinfo.
type mountEntry struct {
	number            string // major:minor of the file system
	path, source, typ string
	root              string // path within the file system that is mounted: "/" for all of it
	options           string // of the file system itself
}

// parseMounts reads /proc/PID/mountinfo (proc_pid_mountinfo(5)), one mount a line in the order of mounting. A line that is none is
// passed over.
//
//	27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
func parseMounts(b []byte) []mountEntry {
	var all []mountEntry
	var text []byte
	word := func(w []byte) string {
		text = kernel.AppendUnescaped(text[:0], w)
		return string(text)
	}
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		c := kernel.Scan(line)
		c.Skip(2)
		var m mountEntry
		m.number = string(c.Word())
		m.root = word(c.Word())
		m.path = word(c.Word())
		c.Skip(1)
		for w := c.Word(); w != nil && string(w) != "-"; w = c.Word() {
		}
		m.typ = word(c.Word())
		m.source = word(c.Word())
		m.options = word(c.Word())
		if m.typ != "" && strings.HasPrefix(m.path, "/") {
			all = append(all, m)
		}
	}
	return all
}
