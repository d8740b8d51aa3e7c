package command

import (
	"fmt"
	"net/netip"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/lang/bpftrace"
	"culprit/lang/check"
	"culprit/symbol"
	"culprit/trace"
	"culprit/trace/probe"

	"golang.org/x/sys/unix"
)

// The blanks before the frames of a stack: as a value, and as a key.
const (
	stackIndent = 8
	keyIndent   = 4
)

// mostBuffer is the highest number of bytes of a buffer.
const mostBuffer = 64

// value returns a value of a shape as it is printed. next returns the values that make it up.
func (p *bpftracePrinter) value(
	s *bpftrace.Shape, next func() trace.Value, indent int,
) bpftrace.Value {
	if s == nil {
		return plain(next())
	}
	switch s.Kind {
	case bpftrace.Tuple:
		v := bpftrace.Value{Parts: []bpftrace.Value{}}
		for _, part := range s.Parts {
			v.Parts = append(v.Parts, p.value(part, next, indent))
		}
		return v
	case bpftrace.Buffer:
		b, n := next().Bytes, next().Int
		b = append(slices.Clone(b), make([]byte, max(0, min(n, mostBuffer)-int64(len(b))))...)
		return bpftrace.BufferOf(b[:max(0, min(int64(len(b)), n))])
	}
	v := next()
	switch s.Kind {
	case bpftrace.KStack, bpftrace.UStack:
		return bpftrace.TextOf(stackText(p.session.Places(v), s, indent))
	case bpftrace.KSym, bpftrace.USym:
		at := p.session.Place(v)
		if at.Name == "" {
			return bpftrace.TextOf("0x" + strconv.FormatUint(at.Address, 16))
		}
		return bpftrace.TextOf(at.Name)
	case bpftrace.Time:
		return bpftrace.TextOf(strftime(s.Format, wallTime(v.Int)))
	case bpftrace.Inet:
		return bpftrace.TextOf(inet(v))
	case bpftrace.MAC:
		return bpftrace.TextOf(mac(v.Bytes))
	case bpftrace.Username:
		return bpftrace.TextOf(p.userName(uint32(v.Int)))
	case bpftrace.ErrorText:
		return bpftrace.TextOf(errorText(v.Int))
	case bpftrace.CgroupPath:
		return bpftrace.TextOf(p.cgroups.of(uint64(v.Int), s.Format))
	case bpftrace.CallName:
		return bpftrace.TextOf(probe.CallName(v.Int))
	case bpftrace.ProbeName:
		return bpftrace.TextOf(probeText(p.session.ProbeOf(uint32(v.Int))))
	}
	return plain(v)
}

// plain returns a number or a text.
func plain(v trace.Value) bpftrace.Value {
	switch t := v.Type.(type) {
	case check.StringType:
		return bpftrace.TextOf(string(v.Bytes))
	case *check.Int:
		return bpftrace.Value{Number: v.Int, Unsigned: !t.Signed}
	case *check.Pointer:
		return bpftrace.Value{Number: v.Int, Unsigned: true}
	}
	if v.Bytes != nil {
		return ofType(v.Type, v.Bytes)
	}
	return bpftrace.Value{Number: v.Int}
}

// stackText returns a stack as bpftrace prints it, one frame per line, after an empty line.
func stackText(places []symbol.Place, s *bpftrace.Shape, indent int) string {
	var b strings.Builder
	b.WriteByte('\n')
	for _, at := range places {
		name := at.Name
		switch {
		case name == "":
			name = "0x" + strconv.FormatUint(at.Address, 16)
		case at.Address != 0:
			name += "+" + strconv.FormatUint(at.Offset, 10)
		}
		switch s.Mode {
		case "perf":
			fmt.Fprintf(&b, "\t%x %s", at.Address, name)
			if s.Kind == bpftrace.UStack {
				module := at.Module
				if module == "" {
					module = "[unknown]"
				}
				b.WriteString(" (" + module + ")")
			}
		case "raw":
			fmt.Fprintf(&b, "%s%x", strings.Repeat(" ", indent), at.Address)
		default:
			b.WriteString(strings.Repeat(" ", indent) + name)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// inet returns an IP address: 4 bytes of a number in the order of the network, or 4 or 16 bytes.
func inet(v trace.Value) string {
	if _, ok := v.Type.(check.StringType); ok { // of pton()
		return string(v.Bytes)
	}
	b := v.Bytes
	if b == nil {
		n := uint32(v.Int)
		b = []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
	}
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		return fmt.Sprintf("(%d bytes)", len(b))
	}
	return a.String()
}

func mac(b []byte) string {
	words := make([]string, len(b))
	for i, c := range b {
		words[i] = fmt.Sprintf("%02X", c)
	}
	return strings.Join(words, ":")
}

// userName returns the name of a user, or the number without one.
func (p *bpftracePrinter) userName(uid uint32) string {
	name, ok := p.names[uid]
	if !ok {
		name = "<unknown>"
		if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
			name = u.Username
		}
		p.names[uid] = name
	}
	return name
}

// errorText returns what strerror() of the C library returns for the number of an error. The texts
// of package unix differ from it in the case of the first letter.
func errorText(n int64) string {
	text := unix.Errno(n).Error()
	switch {
	case n == 0:
		return "Success"
	case n == int64(unix.EHWPOISON): // package unix has no text
		return "Memory page has hardware error"
	case n < 0 || text == fmt.Sprintf("errno %d", n):
		return fmt.Sprintf("Unknown error %d", n)
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// wallTime returns the time of day at a time of the monotonic clock in ns.
func wallTime(ns int64) time.Time {
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) //nolint:errcheck // this clock is always there
	return time.Now().Add(time.Duration(ns - now.Nano()))
}

// probeText returns the name of a probe as bpftrace writes it.
func probeText(p *check.Probe) string {
	if p == nil {
		return ""
	}
	switch p.Provider {
	case "dtrace":
		return p.Name
	case "profile":
		kind, rest, _ := strings.Cut(p.Name, "-")
		if kind == "tick" {
			kind = "interval"
		}
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		return kind + ":" + rest[digits:] + ":" + rest[:digits]
	case "tracepoint":
		return "tracepoint:" + p.Module + ":" + p.Name
	case "rawtp":
		return "rawtracepoint:" + p.Name
	case "fbt":
		kind := map[check.Site]string{
			check.SiteKprobe: "kprobe", check.SiteKretprobe: "kretprobe",
			check.SiteFentry: "kfunc:" + p.Module, check.SiteFexit: "kretfunc:" + p.Module,
		}[p.Site]
		return kind + ":" + p.Function
	case "software", "hardware":
		i := strings.LastIndexByte(p.Name, '-')
		if i >= 0 && strings.Trim(p.Name[i+1:], "0123456789") == "" {
			return p.Provider + ":" + p.Name[:i] + ":" + p.Name[i+1:]
		}
		return p.Provider + ":" + p.Name + ":"
	case "uprobe", "uretprobe":
		return p.Provider + ":" + p.Module + ":" + p.Function
	case "usdt":
		return p.Provider + ":" + p.Module + ":" + p.Function + ":" + p.Name
	}
	return p.String()
}
