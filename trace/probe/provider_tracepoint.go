package probe

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"culprit/kernel/proc"
	"culprit/lang/check"
)

const (
	firstTracepoint = 90_000
	mostTracepoints = 9_000
)

// tracepointProvider has the kernel's trace events with the fields of their records as arguments,
// tracepoint:sched::sched_switch with args.next_comm, as bpftrace and perf know them. sdt has the
// same events with the arguments of the call in the kernel's source.
func tracepointProvider() *provider {
	return &provider{
		name: "tracepoint", first: firstTracepoint, last: firstTracepoint + mostTracepoints - 1,
		named: true, settled: true, list: listTraceEvents, args: recordArgs,
	}
}

func listTraceEvents(e *Env, w *want, yield func(*found)) error {
	events, err := e.TraceEvents()
	if err != nil {
		return err
	}
	f := &found{}
	for i, event := range events {
		if i >= mostTracepoints || event.Subsystem == "ftrace" ||
			w.id == 0 && (!w.name.match(event.Name) || !w.module.match(event.Subsystem)) {
			continue
		}
		*f = found{
			Listed: Listed{
				ID: firstTracepoint + uint32(i), Provider: "tracepoint", Module: event.Subsystem,
				Name: event.Name,
			},
			site: check.SiteTracepoint, event: event.Name,
		}
		if event.Subsystem == "syscalls" && !syscallSite(f) {
			continue
		}
		yield(f)
	}
	return nil
}

// syscallSite makes a trace event of a system call a place in the programs of all system calls,
// which are attached at once. It returns false when the call's number is not known.
func syscallSite(f *found) bool {
	name, enter := strings.CutPrefix(f.event, "sys_enter_")
	if !enter {
		var ok bool
		if name, ok = strings.CutPrefix(f.event, "sys_exit_"); !ok {
			return false
		}
	}
	for nr, n := range syscallNames {
		if n != "" && syscallEvent(n) == name {
			f.key, f.site = uint64(nr), check.SiteSyscallReturn
			if enter {
				f.site = check.SiteSyscallEntry
			}
			return true
		}
	}
	return false
}

// recordArgs returns the fields of a trace event's record, without those of all records.
func recordArgs(e *Env, f *found, _ *check.Probe) ([]check.Arg, string) {
	t, err := e.openTracefs()
	if err != nil {
		return nil, err.Error()
	}
	format, err := t.Format(f.Module, f.event)
	if err != nil {
		return nil, err.Error()
	}
	args := []check.Arg{}
	for _, field := range format.Fields {
		if f.Module != "syscalls" {
			args = append(args, fieldArg(field))
			continue
		}
		if field.Name == "__syscall_nr" || field.Name == "nr" ||
			strings.HasPrefix(field.Type, "__data_loc") { // copies of what pointers lead to
			continue
		}
		args = append(args, syscallField(field, len(args)))
	}
	return args, ""
}

// syscallField returns argument n of a system call, or its result.
func syscallField(field proc.FormatField, n int) check.Arg {
	a := check.Arg{Name: field.Name, From: n}
	switch {
	case strings.HasSuffix(field.Type, "*"):
		a.C, a.User = pointerType(field.Type), true
	case field.Signed || strings.HasPrefix(field.Type, "int") ||
		strings.HasPrefix(field.Type, "long"):
		a.C = "int64_t"
	default:
		a.C = "uint64_t"
	}
	return a
}

// arrayType matches the type of an array: char[16], __u8 [4], unsigned char [6].
var arrayType = regexp.MustCompile(`^(.*?)\s*\[(\d+)\]$`)

// fieldArg returns a field of a record as an argument. Names of integer types are not needed: the
// size and the sign are known.
func fieldArg(field proc.FormatField) check.Arg {
	a := check.Arg{Name: field.Name, From: field.Offset, Size: field.Size}
	if far, ok := strings.CutPrefix(field.Type, "__data_loc "); ok {
		a.Field = check.FieldFar
		a.C = "char *"
		if !strings.Contains(far, "char") {
			a.C = "uint8_t *"
		}
		return a
	}
	if m := arrayType.FindStringSubmatch(field.Type); m != nil {
		n, err := strconv.Atoi(m[2])
		if err == nil && n > 0 && field.Size%n == 0 {
			a.Field = check.FieldArray
			a.C = integerType(field.Size/n, field.Signed) + " [" + m[2] + "]"
			if m[1] == "char" || m[1] == "const char" {
				a.C = "char [" + m[2] + "]"
			}
			return a
		}
	}
	a.Field = check.FieldUnsigned
	switch {
	case strings.HasSuffix(field.Type, "*"):
		a.C = pointerType(field.Type)
	case slices.Contains([]int{1, 2, 4, 8}, field.Size) && field.Offset%field.Size == 0:
		a.C = integerType(field.Size, field.Signed)
		if field.Signed {
			a.Field = check.FieldSigned
		}
	default: // a struct
		a.Field, a.C = check.FieldArray, "uint8_t ["+strconv.Itoa(field.Size)+"]"
	}
	return a
}

// integerType returns the type of an integer; of an unusual size, that of a byte.
func integerType(size int, signed bool) string {
	switch size {
	case 2, 4, 8:
	default:
		size = 1
	}
	name := "int" + strconv.Itoa(8*size) + "_t"
	if signed {
		return name
	}
	return "u" + name
}

// structPointer matches pointers to structs.
var structPointer = regexp.MustCompile(`^(?:const )?(struct \w+) ?(?:const )?\*$`)

// pointerType returns the type of a pointer as C that needs no other names.
func pointerType(t string) string {
	if m := structPointer.FindStringSubmatch(t); m != nil {
		return m[1] + " *"
	}
	switch {
	case strings.HasSuffix(t, "* *") || strings.HasSuffix(t, "**") ||
		strings.HasSuffix(t, "*const *"):
		return "char **"
	case strings.Contains(t, "char"):
		return "char *"
	}
	return "void *"
}
