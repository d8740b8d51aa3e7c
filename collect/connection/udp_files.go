package connection

import (
	"bytes"

	"culprit/collect/procfs"
	"culprit/kernel/proc"
)

// udpFiles are the open files of a network namespace about its UDP sockets.
type udpFiles struct {
	namespace uint64
	files     [2]*proc.File // udp, udp6; the latter may be nil
	inUse     [2]*proc.File // sockstat, sockstat6; nil: not in this kernel
}

// open opens the files. The error is that of net/udp: a kernel without IPv6 lacks others. The
// caller closes the files.
func (n *udpFiles) open(
	namespace uint64, file func(name string) (*proc.File, error),
) (err error) {
	n.namespace = namespace
	if n.files[0], err = file("net/udp"); err != nil {
		return err
	}
	n.files[1], _ = file("net/udp6")
	n.inUse[0], _ = file("net/sockstat")
	n.inUse[1], _ = file("net/sockstat6")
	return nil
}

func (n *udpFiles) close() {
	for _, f := range []*proc.File{n.files[0], n.files[1], n.inUse[0], n.inUse[1]} {
		f.Close()
	}
}

// used reports whether the namespace has UDP sockets of a family: "UDP: inuse 3 mem 2". It has when
// that is not known.
func (n *udpFiles) used(family int) bool {
	if n.inUse[family] == nil {
		return true
	}
	b, err := n.inUse[family].Read()
	if err != nil {
		return true
	}
	for len(b) > 0 {
		var line []byte
		line, b = procfs.CutLine(b)
		name, rest, _ := bytes.Cut(line, []byte(":"))
		if string(name) == "UDP" || string(name) == "UDP6" {
			c := proc.Scan(rest)
			c.Skip(1)
			v := c.Uint()
			return v > 0 || c.Err() != nil
		}
	}
	return true
}
