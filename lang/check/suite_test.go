package check_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/syntax"

	"github.com/cilium/ebpf/btf"
)

// known are the programs of the suite that check judges differently from dtrace, with the reason.
func known(base string) string {
	for why, list := range map[string]string{
		"return(), breakpoint() and pcap() are not supported":                 "actions/return/tst.destructive.d pcap/tst.pcap.regleak.d",
		"an associative array may have as many keys as one likes":             "assocs/err.tupoflow.d",
		"which probes, processes and functions there are is for trace to say": "cpc/err.D_PDESC_ZERO.malformedoverflow.d cpc/err.D_PDESC_ZERO.nonexistentevent.d pid/err.D_PDESC_ZERO.badlib.d pid/err.D_PROC_BADPID.badproc2.d pid/err.D_PROC_CREATEFAIL.many.d pid/err.D_PROC_FUNC.badfunc.d pid/err.D_PROC_LIB.libdash.d pid/err.D_PROC_NAME.alldash.d pid/err.D_PROC_NAME.badname.d pid/err.D_PROC_NAME.globdash.d pid/err.D_PROC_OFF.toobig.d",
		"the arguments of these probes are for trace to say":                  "proc/tst.sigwait.d sdt/tst.args-3.d sdt/tst.args-4.d usdt/tst.argmap-typed-partial.d usdt/tst.argmap-typed.d usdt/tst.argmap.d",
		"the members of a stack that a variable has cannot be changed":        "funcs/stack/tst.store.d funcs/ustack/tst.store.d",
		"nothing is linked here":                                              "options/err.D_ASRELO.kdefs.d",
		"lang/syntax reports another mistake of the text":                     "struct/err.D_DECL_INCOMPLETE.order2.d translators/err.D_DECL_TYPERED.BadTransDecl.d",
		"needs the types of a module that is not loaded":                      "types/tst.nested-unnamed-structs.d",
	} {
		if slices.Contains(strings.Fields(list), base) {
			return why
		}
	}
	return ""
}

// suiteEnv is a machine with every provider that the suite uses, and this machine's own types.
type suiteEnv struct {
	env
	others bool // a provider other than the first ones was used
}

func (e *suiteEnv) Symbol(module, name string) (uint64, btf.Type, error) {
	long := &btf.Int{Name: "unsigned long", Size: 8}
	known := map[string]btf.Type{
		"max_pfn": long, "jiffies": long,
		"linux_banner": &btf.Array{
			Type:   &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed},
			Nelems: 200,
		},
		"nr_cpu_ids": &btf.Int{Name: "unsigned int", Size: 4},
		"cad_pid": &btf.Pointer{
			Target: &btf.Struct{
				Name: "pid",
				Size: 100,
				Members: []btf.Member{
					{Name: "level", Type: &btf.Int{Name: "unsigned int", Size: 4}, Offset: 64},
				},
			},
		},
		"saved_command_line": &btf.Pointer{
			Target: &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed},
		},
		"major_names":  &btf.Array{Type: &btf.Pointer{Target: &btf.Void{}}, Nelems: 255},
		"crashing_cpu": &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
	}
	for symbol, tag := range map[string]string{"init_task": "task_struct",
		"cgrp_dfl_root": "cgroup_root", "tasklist_lock": "rwlock_t", "bpf_verifier_lock": "mutex",
		"ext4_dir_operations": "file_operations", "isofs_dir_operations": "file_operations"} {
		if list, err := e.spec.AnyTypesByName(tag); symbol == name && err == nil && len(list) > 0 {
			known[symbol] = list[0]
		}
	}
	if t := known[name]; t != nil {
		return 0xffffffff82000000, t, nil
	}
	var fn *btf.Func
	if e.spec.TypeByName(name, &fn) == nil {
		return 0xffffffff81000000, fn, nil
	}
	return 0, nil, fmt.Errorf("there is no such symbol")
}

func (e *suiteEnv) Probes(d *syntax.Probe) ([]*check.Probe, error) {
	found, err := suiteProbes(d, e.spec)
	provider := d.Provider.Text
	if provider != "" &&
		!slices.Contains([]string{"dtrace", "profile", "tick", "syscall"}, provider) {
		e.others = true
	}
	return found, err
}

var timer = regexp.MustCompile(
	`^(tick|profile)-([0-9]+)(ns|nsec|us|usec|ms|msec|s|sec|m|min|h|hour|d|day|hz)?$`,
)

func suiteProbes(d *syntax.Probe, spec *btf.Spec) ([]*check.Probe, error) {
	none := fmt.Errorf("no probe matches %s", syntax.Print(d))
	fits := func(glob, s string) bool {
		ok, _ := path.Match(glob, s)
		return glob == "" || ok
	}
	provider, module, function, name := d.Provider.Text, d.Module.Text, d.Function.Text, d.Name.Text
	if d.Parts == 0 {
		if d.ID == 0 || d.ID > 100000 {
			return nil, none
		}
		return []*check.Probe{
			{
				ID:       d.ID,
				Provider: "syscall",
				Module:   "vmlinux",
				Function: "read",
				Name:     "entry",
				Site:     check.SiteSyscallEntry,
			},
		}, nil
	}
	var out []*check.Probe
	for i, n := range []string{"BEGIN", "END", "ERROR"} {
		if fits(provider, "dtrace") && fits(module, "") && fits(function, "") && fits(name, n) {
			out = append(out, &check.Probe{ID: uint32(i + 1), Provider: "dtrace", Name: n})
		}
	}
	if m := timer.FindStringSubmatch(name); m != nil &&
		!(m[2] == "1" && strings.HasPrefix(m[3], "ns") ||
			m[2] == "1" && strings.HasPrefix(m[3], "us")) &&
		fits(provider, "profile") &&
		module == "" &&
		function == "" &&
		m[2] != "0" {
		out = append(
			out,
			&check.Probe{
				ID:       90000 + uint32(len(name)),
				Provider: "profile",
				Name:     name,
				Site:     check.SitePerfEvent,
			},
		)
	}
	if fits(provider, "syscall") && fits(module, "vmlinux") {
		for i, line := range strings.Split(strings.TrimSpace(syscalls), "\n") {
			call, rest, _ := strings.Cut(line, "(")
			if !fits(function, call) {
				continue
			}
			if fits(name, "entry") {
				p := &check.Probe{
					ID:       1000 + uint32(2*i),
					Provider: "syscall",
					Module:   "vmlinux",
					Function: call,
					Name:     "entry",
					Site:     check.SiteSyscallEntry,
				}
				for n, c := range strings.Split(strings.TrimSuffix(rest, ")"), ", ") {
					if c != "" {
						p.Args = append(
							p.Args, check.Arg{C: c, From: n, User: strings.Contains(c, "*")},
						)
					}
				}
				out = append(out, p)
			}
			if fits(name, "return") {
				out = append(
					out,
					&check.Probe{
						ID:       1001 + uint32(2*i),
						Provider: "syscall",
						Module:   "vmlinux",
						Function: call,
						Name:     "return",
						Site:     check.SiteSyscallReturn,
						Args:     []check.Arg{{C: "long", From: 0}},
					},
				)
			}
		}
	}
	if function == "finish_task_switch.isra.0" || provider == "*fbt" {
		return []*check.Probe{
			{
				ID:       80002,
				Provider: "rawfbt",
				Module:   "vmlinux",
				Function: "finish_task_switch.isra.0",
				Name:     name,
				Site:     check.SiteKprobe,
			},
		}, nil
	}
	if provider == "fbt" || provider == "rawfbt" ||
		provider == "" && (name == "entry" || name == "return") && out == nil {
		var fn *btf.Func
		if spec == nil || spec.TypeByName(function, &fn) != nil {
			if strings.ContainsAny(function, "*?[") || function == "" || spec == nil {
				return append(
					out,
					&check.Probe{
						ID:       80000,
						Provider: "fbt",
						Module:   "vmlinux",
						Function: "anything",
						Name:     name,
						Site:     check.SiteKprobe,
					},
				), nil
			}
			return out, none
		}
		p := &check.Probe{
			ID:       80001,
			Provider: provider,
			Module:   "vmlinux",
			Function: function,
			Name:     name,
			Site:     check.SiteKprobe,
		}
		proto, _ := fn.Type.(*btf.FuncProto)
		switch {
		case provider == "rawfbt" || proto == nil:
		case name == "entry":
			for i, a := range proto.Params {
				p.Args = append(p.Args, check.Arg{Name: a.Name, Type: a.Type, From: i})
			}
		case name == "return":
			p.Site = check.SiteKretprobe
			p.Args = []check.Arg{{C: "uint64_t", From: 0}}
			if _, void := proto.Return.(*btf.Void); !void {
				p.Args = append(p.Args, check.Arg{Type: proto.Return, From: -1})
			} else {
				p.Args = nil
			}
		default:
			return nil, none
		}
		return append(out, p), nil
	}
	psinfo, lwpsinfo := check.Arg{Xlate: "psinfo_t"}, check.Arg{Xlate: "lwpsinfo_t"}
	var task *btf.Struct
	if spec != nil && spec.TypeByName("task_struct", &task) == nil {
		psinfo.Type, lwpsinfo.Type = &btf.Pointer{Target: task}, &btf.Pointer{Target: task}
	}
	stable := map[string][]check.Arg{
		"proc:create": {psinfo}, "proc:signal-send": {lwpsinfo, psinfo, {C: "int", From: 2}},
		"proc:exec-success": {}, "proc:start": {}, "proc:exit": {{C: "int"}},
		"sched:enqueue": {lwpsinfo, psinfo, {C: "int", From: 2, Xlate: "cpuinfo_t"}},
	}
	for key, args := range stable {
		p, n, _ := strings.Cut(key, ":")
		if out == nil && module == "" && function == "" && name == n &&
			(provider == p || provider == "") {
			return []*check.Probe{
				{
					ID:       60000 + uint32(len(key)),
					Provider: p,
					Name:     n,
					Site:     check.SiteTracepointBTF,
					Args:     args,
				},
			}, nil
		}
	}
	if out == nil &&
		slices.ContainsFunc(
			[]string{
				"proc",
				"sched",
				"io",
				"ip",
				"tcp",
				"udp",
				"lockstat",
				"sdt",
				"rawtp",
				"vminfo",
				"sysinfo",
				"pid[0-9]*",
				"test_*",
				"prov*",
				"cpc",
				"lockstat",
				"lio",
				"mib",
				"usdt*",
				"stapsdt*",
			},
			func(glob string) bool {
				ok, _ := path.Match(glob, provider)
				return ok
			},
		) {
		return []*check.Probe{
			{
				ID:       70000,
				Provider: provider,
				Module:   module,
				Function: function,
				Name:     name,
				Site:     check.SiteRawTracepoint,
			},
		}, nil
	}
	if out == nil {
		return nil, none
	}
	return out, nil
}

const syscalls = `
read(unsigned int, char *, size_t)
write(unsigned int, const char *, size_t)
open(const char *, int, uint16_t)
openat(int, const char *, int, uint16_t)
close(unsigned int)
ioctl(unsigned int, unsigned int, unsigned long)
mmap(unsigned long, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long)
munmap(unsigned long, size_t)
brk(unsigned long)
execve(const char *, const char *const *, const char *const *)
exit_group(int)
exit(int)
kill(pid_t, int)
getpid()
gettimeofday(void *, void *)
clock_gettime(int, void *)
nanosleep(void *, void *)
clock_nanosleep(int, int, void *, void *)
select(int, void *, void *, void *, void *)
pselect6(int, void *, void *, void *, void *, void *)
poll(void *, unsigned int, int)
ppoll(void *, unsigned int, void *, void *, size_t)
futex(unsigned int *, int, unsigned int, void *, unsigned int *, unsigned int)
stat(const char *, void *)
newfstatat(int, const char *, void *, int)
fstat(unsigned int, void *)
lseek(unsigned int, long, unsigned int)
pread64(unsigned int, char *, size_t, long)
wait4(pid_t, int *, int, void *)
clone(unsigned long, unsigned long, int *, int *, unsigned long)
chdir(const char *)
rt_sigaction(int, void *, void *, size_t)
getuid()
setuid(unsigned int)
socket(int, int, int)
connect(int, void *, int)
faccessat(int, const char *, int)
mkdir(const char *, uint16_t)
unlink(const char *)
umask(int)
sigaltstack(void *, void *)
`

var runtestOpts = regexp.MustCompile(`@@runtest-opts:\s*(.*?)\s*\*/`)

// suiteOptions returns the options that a program of the suite runs with; !ok: options outside the
// scope of check.
func suiteOptions(text string) (o check.Options, why string) {
	o = check.Options{
		Args: []string{"/bin/script"},
		All:  map[string]string{},
		Words: map[string]string{
			"pid":    "4242",
			"ppid":   "1",
			"uid":    "0",
			"euid":   "0",
			"gid":    "0",
			"egid":   "0",
			"pgid":   "1",
			"sid":    "1",
			"projid": "0",
			"taskid": "0",
		},
	}
	m := runtestOpts.FindStringSubmatch(text)
	o.Target = 1234
	if m == nil {
		return o, ""
	}
	words := strings.Fields(m[1])
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "-c":
			o.Target = 1234
			i++
		case strings.HasPrefix(w, "-x"):
			v := strings.TrimPrefix(w, "-x")
			if v == "" && i+1 < len(words) {
				i++
				v = words[i]
			}
			name, value, _ := strings.Cut(v, "=")
			switch name {
			case "cpp", "define", "undef", "stdc":
				return o, "runs with a preprocessor"
			case "errtags":
			default:
				o.All[name] = value
			}
		case strings.HasPrefix(w, "-b"):
			o.All["bufsize"] = strings.TrimPrefix(w, "-b")
		case w == "-Z", w == "-FZ":
			o.Probes = true
		case w == "-w":
			o.Destructive = true
		case strings.HasPrefix(w, "-") && strings.ContainsAny(w, "CDUG"):
			return o, "runs with a preprocessor or a linker"
		case w == "-V", w == "-h":
			return o, "is about the command line"
		case w == "-I":
			i++
		case strings.HasPrefix(w, "-"):
		case w == "$_pid":
			o.Args = append(o.Args, "1234")
		default:
			o.Args = append(o.Args, w)
		}
	}
	return o, ""
}

// TestPeerSuite checks the programs of dtrace's own tests, from an unpacked dtrace-tests package.
// Programs that should run must compile; programs with a mistake must be refused with dtrace's name
// for it.
func TestPeerSuite(t *testing.T) {
	dir := os.Getenv("CULPRIT_DTRACE_TESTS")
	if dir == "" {
		t.Skip("needs: tool dtrace-tests (unpacked, in CULPRIT_DTRACE_TESTS)")
	}
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Skipf("needs: kernel feature BTF: %v", err)
	}
	var good, all [2]int // with the first providers, with the others
	outside := 0
	err = filepath.Walk(
		filepath.Join(dir, "test", "unittest"),
		func(path string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() || filepath.Ext(path) != ".d" {
				return err
			}
			base := filepath.Base(path)
			name := strings.TrimPrefix(path, dir+"/test/unittest/")
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text := string(data)
			o, why := suiteOptions(text)
			if why == "" && strings.Contains(text, "@@xfail") {
				why = "fails with dtrace too"
			}
			if (strings.Contains(base, "aarch64") || strings.Contains(base, "arm64")) &&
				runtime.GOARCH != "arm64" ||
				strings.Contains(base, "x86_64") && runtime.GOARCH != "amd64" {
				why = "is for another machine"
			}
			runs := strings.HasPrefix(base, "tst.") || strings.HasPrefix(base, "drp.")
			wrong := strings.HasPrefix(base, "err.D_")
			if said, err := os.ReadFile(strings.TrimSuffix(path, ".d") + ".r"); err == nil &&
				strings.HasPrefix(base, "err.") &&
				strings.Contains(string(said), "failed to compile") {
				wrong = true
			}
			if why != "" || !runs && !wrong {
				outside++
				return nil
			}
			e := &suiteEnv{env: env{spec: spec}}
			prog, ds := syntax.Parse(text, syntax.Mode{File: name})
			var p *check.Program
			if ds == nil {
				p, ds = check.Check(name, text, prog, e, o)
			} else if ds[0].Code == syntax.NeedsPreprocessor {
				outside++
				return nil
			}
			if (p == nil) == (len(ds) == 0) {
				t.Fatalf("%s: a program and diagnostics, or neither", name)
			}
			if p != nil {
				checkTree(t, p)
			}
			group := 0
			if e.others {
				group = 1
			}
			all[group]++
			complaint := ""
			if runs && ds != nil {
				complaint = "reported as wrong: " + ds[0].Tag + "\n" + ds.Marked()
			}
			if wrong {
				tag := strings.Split(base, ".")[1]
				if ds == nil {
					complaint = "passes, but for " + tag
				} else if !strings.HasPrefix(tag, "D_") {
					complaint = ""
				} else if !slices.ContainsFunc(ds,
					func(d *syntax.Diagnostic) bool { return d.Tag == tag }) {
					complaint = "reported as " + ds[0].Tag + "\n" + ds.Marked()
				}
			}
			switch {
			case complaint == "":
				good[group]++
				if known(name) != "" {
					t.Errorf("%s: is as it should be, and is listed as known", name)
				}
			case known(name) == "":
				t.Errorf("%s: %s", name, complaint)
			}
			return nil
		},
	)
	if err != nil || all[0] == 0 {
		t.Errorf("%d programs: %v", all[0], err)
	}
	t.Logf(
		"first providers: %d of %d; others: %d of %d; %d are out of scope", good[0], all[0],
		good[1], all[1], outside,
	)
}
