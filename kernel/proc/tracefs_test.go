package proc

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/kernel"
	"culprit/measure"
)

const openatFormat = `name: sys_enter_openat
ID: 782
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:int __syscall_nr;	offset:8;	size:4;	signed:1;
	field:const char * filename;	offset:24;	size:8;	signed:0;
	field:char comm[16];	offset:32;	size:16;	signed:0;
	field:__data_loc char[] name;	offset:48;	size:4;	signed:0;
	field:unsigned char data[ 8 ];	offset:52;	size:8;	signed:0;

print fmt: "dfd: 0x%08lx", ((unsigned long)(REC->dfd)), field:nonsense
`

func TestParseFormat(t *testing.T) {
	f, err := ParseFormat([]byte(openatFormat))
	if err != nil {
		t.Fatal(err)
	}
	want := &Format{
		Name: "sys_enter_openat", ID: 782,
		Common: []FormatField{{"common_type", "unsigned short", 0, 2, false},
			{"common_pid", "int", 4, 4, true}},
		Fields: []FormatField{
			{"__syscall_nr", "int", 8, 4, true},
			{"filename", "const char *", 24, 8, false},
			{"comm", "char [16]", 32, 16, false},
			{"name", "__data_loc char[]", 48, 4, false},
			{"data", "unsigned char [ 8 ]", 52, 8, false},
		},
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("%+v\nwant %+v", f, want)
	}
	for _, bad := range []string{
		"", "name: x\n", "ID: 7\n", "name: x\nID: -1\n", "name: x\nID: 99999999999\n",
		"name: x\nID: 1\nformat:\n\tfield:int;\toffset:0;\tsize:4;\n",
		"name: x\nID: 1\nformat:\n\tfield:int a;\toffset:q;\tsize:4;\n",
		"name: x\nID: 1\nformat:\n\tfield:int a;\toffset:0;\n",
		"name: x\nID: 1\nformat:\nwhat\n",
	} {
		if f, err := ParseFormat([]byte(bad)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %+v, %v", bad, f, err)
		}
	}
}

func FuzzParseFormat(f *testing.F) {
	f.Add([]byte(openatFormat))
	f.Add([]byte("name: x\nID: 1\nformat:\n\tfield:a b[];\toffset:0;\tsize:4;\n"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		format, err := ParseFormat(b)
		if (format == nil) == (err == nil) {
			t.Fatal(format, err)
		}
		if err != nil {
			return
		}
		for _, field := range append(format.Common, format.Fields...) {
			if field.Name == "" || field.Type == "" || field.Offset < 0 || field.Size < 0 {
				t.Errorf("%+v", field)
			}
		}
	})
}

func TestParseTraceLists(t *testing.T) {
	events := parseEvents([]byte("net:netif_rx\n\nbad\n:x\ny:\nxfs:xfs_read more\nsched:last"))
	if want := []Event{{"net", "netif_rx"}, {"xfs", "xfs_read"},
		{"sched", "last"}}; !reflect.DeepEqual(events, want) {
		t.Error(events)
	}
	functions := parseFunctions([]byte("vfs_read\n__ftrace_invalid_address___88\nnfsd_open " +
		"[nfsd]\n\nodd []\nlast"))
	want := []KernelFunction{{"vmlinux", "vfs_read"}, {"nfsd", "nfsd_open"}, {"vmlinux", "odd"},
		{"vmlinux", "last"}}
	if !reflect.DeepEqual(functions, want) {
		t.Error(functions)
	}
}

func FuzzTraceLists(f *testing.F) {
	f.Add([]byte("net:netif_rx\nvfs_read [x]\n"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		for _, e := range parseEvents(append([]byte(nil), b...)) {
			if e.Subsystem == "" || e.Name == "" || strings.ContainsAny(e.Subsystem+e.Name, "\n ") {
				t.Errorf("%q", e)
			}
		}
		for _, f := range parseFunctions(append([]byte(nil), b...)) {
			if f.Module == "" || f.Name == "" || strings.ContainsAny(f.Name, "\n ") {
				t.Errorf("%q", f)
			}
		}
	})
}

// traceEvents opens the trace events of this kernel, or skips.
func traceEvents(t testing.TB) *Tracefs {
	t.Helper()
	fs, err := OpenTracefs(kernel.Root{})
	if errors.Is(err, measure.ErrDenied) {
		t.Skip("needs: root (trace events)")
	} else if errors.Is(err, measure.ErrUnsupported) {
		t.Skip("needs: kernel feature TRACEFS")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	return fs
}

// Whatever this kernel has: each event that it lists has a format, under its own name.
func TestTraceEventsOfThisKernel(t *testing.T) {
	tracefs := traceEvents(t)
	events, err := tracefs.Events()
	if err != nil || len(events) == 0 {
		t.Fatal(len(events), err)
	}
	for i := 0; i < len(events); i += len(events)/20 + 1 {
		e := events[i]
		f, err := tracefs.Format(e.Subsystem, e.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // of a module that went
		}
		if err != nil || f.Name != e.Name || len(f.Common) == 0 {
			t.Errorf("%v: %+v, %v", e, f, err)
		}
	}
	if _, err := tracefs.Format("net", "../net/netif_rx"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	list, err := tracefs.Functions()
	t.Logf("%d events, %d functions, %v", len(events), len(list), err)
}

func TestTracefsOfACapturedTree(t *testing.T) {
	r := captured(t, map[string]string{
		"sys/kernel/tracing/available_events":                        "syscalls:sys_enter_openat\n",
		"sys/kernel/tracing/events/syscalls/sys_enter_openat/format": openatFormat,
	})
	tracefs, err := OpenTracefs(r)
	if err != nil {
		t.Fatal(err)
	}
	defer tracefs.Close()
	if f, err := tracefs.Format("syscalls", "sys_enter_openat"); err != nil || f.ID != 782 {
		t.Error(f, err)
	}
	if _, err := tracefs.Functions(); !errors.Is(err, measure.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := OpenTracefs(captured(t, nil)); !errors.Is(err, measure.ErrUnclear) {
		t.Error(err)
	}
}

func BenchmarkTraceEvents(b *testing.B) {
	tracefs := traceEvents(b)
	for b.Loop() {
		if _, err := tracefs.Events(); err != nil {
			b.Fatal(err)
		}
	}
}
