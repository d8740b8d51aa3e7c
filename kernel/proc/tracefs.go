package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unsafe"

	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Tracefs is the file system in which the kernel lists its trace events and traceable functions.
// culprit only reads it: an event made there would remain when the process is killed.
type Tracefs struct{ dir *Dir }

// OpenTracefs opens the trace file system where it is mounted. Where it is not, and the process has
// CAP_SYS_ADMIN, it makes a mount that is attached to no directory and that nobody else sees. The
// caller closes it. errors.Is measure.ErrUnsupported: the kernel has none; measure.ErrDenied: it
// may not be read.
func OpenTracefs(r kernel.Root) (*Tracefs, error) {
	for _, name := range []string{"kernel/tracing", "kernel/debug/tracing"} {
		dir, err := OpenDir(r.InSys(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, tracefsErr(err)
		}
		var st unix.Statfs_t
		if r.Captured() || r.Sys != "" || unix.Fstatfs(dir.fd, &st) == nil &&
			st.Type == unix.TRACEFS_MAGIC {
			return &Tracefs{dir}, nil
		}
		dir.Close() // the place for it, with nothing mounted there
	}
	if !r.Real() {
		return nil, fmt.Errorf("no tracefs in the captured tree: %w", measure.ErrUnclear)
	}
	fd, err := mountTracefs()
	if err != nil {
		return nil, tracefsErr(err)
	}
	return &Tracefs{&Dir{fd: fd, path: "tracefs"}}, nil
}

// mountTracefs makes a mount that is attached to no directory (fsmount(2)). Closing the descriptor
// ends it.
func mountTracefs() (int, error) {
	super, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if errors.Is(err, unix.ENODEV) {
		return -1, fmt.Errorf("compiled without CONFIG_TRACING: %w", measure.ErrUnsupported)
	} else if err != nil {
		return -1, kernel.AsError(err)
	}
	defer unix.Close(super)
	if err := unix.FsconfigCreate(super); err != nil {
		return -1, kernel.AsError(err)
	}
	fd, err := unix.Fsmount(super, unix.FSMOUNT_CLOEXEC,
		unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	return fd, kernel.AsError(err)
}

func tracefsErr(err error) error {
	if errors.Is(err, measure.ErrDenied) {
		return &measure.Denied{Doing: "read the kernel's list of trace events",
			Needs: "root, or tracefs mounted and readable"}
	}
	return fmt.Errorf("open tracefs: %w", err)
}

// Close closes the file system. A second Close does nothing. The error is that of close(2).
func (t *Tracefs) Close() error {
	if t == nil {
		return nil
	}
	return t.dir.Close()
}

// An Event is a trace event: net:netif_receive_skb.
type Event struct{ Subsystem, Name string }

// Events lists all trace events in the kernel's order, those of modules too: some thousands, in 3
// ms. The error is of available_events.
func (t *Tracefs) Events() ([]Event, error) {
	b, err := t.dir.ReadFile("available_events", nil)
	if err != nil {
		return nil, fmt.Errorf("read available_events: %w", err)
	}
	return parseEvents(b), nil
}

// parseEvents parses lines of "subsystem:name". The strings share b, which must not change.
func parseEvents(b []byte) []Event {
	events := make([]Event, 0, bytes.Count(b, []byte{'\n'}))
	for line := range strings.Lines(asString(b)) {
		// Events of syscalls, in one kernel version, and of modules may be followed by more words.
		line, _, _ = strings.Cut(strings.TrimRight(line, "\n"), " ")
		subsystem, name, ok := strings.Cut(line, ":")
		if ok && subsystem != "" && name != "" {
			events = append(events, Event{subsystem, name})
		}
	}
	return events
}

// asString returns b as a string without a copy; b must not change.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// A Format is the layout of a trace event's record.
type Format struct {
	Name   string
	ID     int           // the number that perf_event_open takes
	Common []FormatField // what every record begins with
	Fields []FormatField // the event's own
}

// A FormatField is one field of a record: Size bytes at Offset. Type is the C type without the
// name: "const char *", "char [16]", "__data_loc char[]" (32 bits: length and offset of the data).
type FormatField struct {
	Name, Type   string
	Offset, Size int
	Signed       bool
}

// Format reads the layout of one event. errors.Is fs.ErrNotExist: there is no such event;
// ErrFormat: the file is malformed.
func (t *Tracefs) Format(subsystem, name string) (*Format, error) {
	if strings.ContainsRune(subsystem+name, '/') {
		return nil, fmt.Errorf("format of %s:%s: %w", subsystem, name, fs.ErrNotExist)
	}
	b, err := t.dir.ReadFile("events/"+subsystem+"/"+name+"/format", nil)
	if err != nil {
		return nil, fmt.Errorf("format of %s:%s: %w", subsystem, name, err)
	}
	f, err := ParseFormat(b)
	if err != nil {
		return nil, fmt.Errorf("format of %s:%s: %w", subsystem, name, err)
	}
	return f, nil
}

// ErrFormat is the error of a text that is not the layout of a trace event.
var ErrFormat = errors.New("not the format of a trace event")

// ParseFormat parses events/SUBSYSTEM/NAME/format. The error is ErrFormat.
//
//	name: netif_receive_skb
//	ID: 2303
//	format:
//		field:int common_pid;	offset:4;	size:4;	signed:1;
//
//		field:void * skbaddr;	offset:8;	size:8;	signed:0;
//
//	print fmt: "dev=%s ...
//
// A blank line separates the fields of all records from those of this event.
func ParseFormat(b []byte) (*Format, error) {
	f := &Format{ID: -1}
	in, own := false, false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "print fmt:"):
			return f.checked()
		case line == "format:":
			in = true
		case line == "":
			own = in && len(f.Common) > 0
		case !in:
			if name, ok := strings.CutPrefix(line, "name: "); ok {
				f.Name = name
			} else if id, ok := strings.CutPrefix(line, "ID: "); ok {
				v, err := ParseUint([]byte(id))
				if err != nil || v > 1<<31-1 {
					return nil, fmt.Errorf("%w: its ID is %q", ErrFormat, id)
				}
				f.ID = int(v)
			}
		default:
			field, err := parseField(line)
			if err != nil {
				return nil, err
			}
			if own {
				f.Fields = append(f.Fields, field)
			} else {
				f.Common = append(f.Common, field)
			}
		}
	}
	return f.checked()
}

func (f *Format) checked() (*Format, error) {
	if f.Name == "" || f.ID < 0 {
		return nil, fmt.Errorf("%w: it has no name or no ID", ErrFormat)
	}
	return f, nil
}

func parseField(line string) (FormatField, error) {
	const shown = 80 // bytes of the line
	bad := func() error {
		return fmt.Errorf("%w: a field is %q", ErrFormat, line[:min(len(line), shown)])
	}
	var f FormatField
	seen := 0
	for part := range strings.SplitSeq(line, ";") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			continue
		}
		if key == "field" || key == "field special" {
			f.Name, f.Type = cutName(value)
			seen |= 1
			continue
		}
		v, err := ParseUint([]byte(value))
		if err != nil || v > 1<<20 {
			return f, bad()
		}
		switch key {
		case "offset":
			f.Offset = int(v)
			seen |= 2
		case "size":
			f.Size = int(v)
			seen |= 4
		case "signed":
			f.Signed = v != 0
		}
	}
	if seen != 7 || f.Name == "" || f.Type == "" {
		return f, bad()
	}
	return f, nil
}

// cutName splits a C declaration into its name, which is the last word before the brackets of an
// array, and its type.
func cutName(decl string) (name, typ string) {
	decl = strings.TrimSpace(decl)
	end := len(decl)
	if decl[max(0, end-1):] == "]" {
		if i := strings.LastIndexByte(decl, '['); i >= 0 &&
			isWordByte(lastByte(strings.TrimSpace(decl[:i]))) {
			end = i
		}
	}
	start := len(strings.TrimRight(decl[:end], " "))
	end = start
	for start > 0 && isWordByte(decl[start-1]) {
		start--
	}
	typ = strings.TrimSpace(decl[:start] + decl[end:])
	return decl[start:end], typ
}

func lastByte(s string) byte {
	if s == "" {
		return 0
	}
	return s[len(s)-1]
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// A KernelFunction is a function of the kernel (Module "vmlinux") or of a module.
type KernelFunction struct{ Module, Name string }

// Functions lists the functions that ftrace, kprobes and fentry can use, in the order of their
// addresses: tens of thousands. errors.Is measure.ErrUnsupported: the kernel has no function
// tracer; measure.ErrDenied: the list may not be read.
func (t *Tracefs) Functions() ([]KernelFunction, error) {
	b, err := t.dir.ReadFile("available_filter_functions", nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read available_filter_functions: compiled without "+
			"CONFIG_DYNAMIC_FTRACE: %w", measure.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("read available_filter_functions: %w", err)
	}
	return parseFunctions(b), nil
}

// parseFunctions parses lines of "name" and "name [module]". The strings share b, which must not
// change.
func parseFunctions(b []byte) []KernelFunction {
	list := make([]KernelFunction, 0, bytes.Count(b, []byte{'\n'}))
	for line := range strings.Lines(asString(b)) {
		name, module, ok := strings.Cut(strings.TrimRight(line, "\n"), " ")
		// A place without a symbol (an overridden weak function) has an artificial name.
		if name == "" || strings.HasPrefix(name, "__ftrace_invalid_address__") {
			continue
		}
		if ok = ok && len(module) > 2 && module[0] == '[' && module[len(module)-1] == ']'; ok {
			module = module[1 : len(module)-1]
		} else {
			module = "vmlinux"
		}
		list = append(list, KernelFunction{module, name})
	}
	return list
}
