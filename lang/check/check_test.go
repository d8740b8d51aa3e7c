package check_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/syntax"

	"github.com/cilium/ebpf/btf"
)

// env is a machine with a few probes of each kind.
type env struct {
	spec *btf.Spec
	err  error
	read bool // BTF has been called
}

func (e *env) BTF() (*btf.Spec, error) {
	e.read = true
	return e.spec, e.err
}

func (e *env) Symbol(module, name string) (uint64, btf.Type, error) {
	if name == "jiffies" {
		return 0xffffffff81000000, &btf.Int{Name: "unsigned long", Size: 8}, nil
	}
	return 0, nil, fmt.Errorf("there is no such variable")
}

func (e *env) Topology() (chips, nodes []int) { return []int{0, 0, 1, 1}, []int{1, 1, 0, 0} }

func (e *env) Probes(d *syntax.Probe) ([]*check.Probe, error) {
	if d.Parts == 0 {
		if d.ID >= 1 && d.ID <= uint32(len(machine())) {
			return machine()[d.ID-1 : d.ID], nil
		}
		return nil, fmt.Errorf("there is no probe %d", d.ID)
	}
	var out []*check.Probe
	name := d.Name.Text
	if (d.Provider.Text == "" || d.Provider.Text == "profile") &&
		(strings.HasPrefix(name, "tick-") || strings.HasPrefix(name, "profile-")) {
		site := check.SiteRun
		if name[0] == 'p' {
			site = check.SitePerfEvent
		}
		return []*check.Probe{
			{ID: 10000 + uint32(len(name)), Provider: "profile", Name: name, Site: site},
		}, nil
	}
	fits := func(glob, s string) bool {
		ok, _ := path.Match(glob, s)
		return glob == "" || ok
	}
	for _, p := range machine() {
		if fits(d.Provider.Text, p.Provider) && fits(d.Module.Text, p.Module) &&
			fits(d.Function.Text, p.Function) &&
			fits(d.Name.Text, p.Name) {
			out = append(out, p)
		}
	}
	if out == nil {
		return nil, fmt.Errorf("no probe matches %s", syntax.Print(d))
	}
	return out, nil
}

func machine() []*check.Probe {
	var out []*check.Probe
	add := func(provider, module, function, name string, site check.Site, args ...check.Arg) {
		out = append(
			out,
			&check.Probe{
				ID:       uint32(len(out) + 1),
				Provider: provider,
				Module:   module,
				Function: function,
				Name:     name,
				Site:     site,
				Args:     args,
			},
		)
	}
	add("dtrace", "", "", "BEGIN", check.SiteRun)
	add("dtrace", "", "", "END", check.SiteRun)
	add("dtrace", "", "", "ERROR", check.SiteRun)
	arg := func(i int, c string) check.Arg {
		return check.Arg{C: c, From: i,
			User: strings.Contains(c, "*")}
	}
	for _, c := range []struct {
		name string
		args []check.Arg
	}{
		{"read", []check.Arg{arg(0, "unsigned int"), arg(1, "char *"), arg(2, "size_t")}},
		{"write", []check.Arg{arg(0, "unsigned int"), arg(1, "const char *"), arg(2, "size_t")}},
		{"open", []check.Arg{arg(0, "const char *"), arg(1, "int"), arg(2, "uint16_t")}},
		{"exit_group", []check.Arg{arg(0, "int")}},
		{"openat", []check.Arg{arg(0, "int"), arg(1, "const char *"), arg(2, "int")}},
		{"execve", []check.Arg{arg(0, "const char *"), arg(1, "const char *const *"), arg(2, "const char *const *")}},
		{"ioctl", nil}, {"kill", nil}, {"mmap", nil}, {"gettimeofday", nil},
	} {
		name, args := c.name, c.args
		add("syscall", "vmlinux", name, "entry", check.SiteSyscallEntry, args...)
		add(
			"syscall", "vmlinux", name, "return", check.SiteSyscallReturn,
			check.Arg{C: "long", From: 0},
		)
	}
	return out
}

func compile(text string, o check.Options, e check.Env) (*check.Program, syntax.Diagnostics) {
	prog, ds := syntax.Parse(text, syntax.Mode{Macros: o.Macro})
	if ds != nil {
		return nil, ds
	}
	return check.Check("", text, prog, e, o)
}

func TestOneLiners(t *testing.T) {
	for _, text := range []string{
		`profile-997 /arg0 && cpu==23/ { @[stack()] = count(); } tick-60s { exit(0); }`,
		`syscall:::entry { @[execname] = count(); }`,
		`syscall:::entry { @[probefunc] = count(); }`,
		`syscall::read:entry { self->ts = timestamp; } syscall::read:return /self->ts/ { @[execname] = quantize(timestamp - self->ts); self->ts = 0; }`,
		`syscall::read:return { @[execname] = quantize(arg0); }`,
		`syscall::open*:entry { printf("%s %s", execname, copyinstr(arg1)); }`,
		`syscall::exec*:return { trace(execname); }`,
		`profile-99 /arg1/ { @[execname, ustack()] = count(); }`,
		`profile-101 { @[cpu] = lquantize(arg0 != 0, 0, 2, 1); }`,
		`BEGIN { printf("%d %s\n", 1 << 3, "x"); exit(0); }`,
		`BEGIN { @ = count(); } tick-1s { printa(@); clear(@); }`,
		`BEGIN { @ = count(); } END { trunc(@, 10); }`,
		`syscall::read:entry { self->t = timestamp; } syscall::read:return/self->t/{@=avg(timestamp-self->t);} tick-30s{printa("average: %@d nsn",@);trunc(@);}`,
		`BEGIN { x["a", 1] = 3; y = x["b", 2] + 1; this->z = y > 1 ? "much" : "little"; trace(this->z); i++; } syscall::write:entry { @[pid, tid] = sum(arg2); trace(args[2]); }`,
		`inline int LIMIT = 5; inline int twice[int n] = 2 * n; enum { A, B = 7 }; BEGIN { trace(LIMIT + twice[B]); }`,
		`struct s { int a; char b[10]; struct s *next; int f : 3; } g; BEGIN { g.a = 1; trace(g.b); trace(g.next->next->f); printf("%s", g.b); p = g.next; p->a += 2; }`,
	} {
		e := &env{}
		p, ds := compile(text, check.Options{}, e)
		if ds != nil {
			t.Errorf("%s\n%s", text, ds.Marked())
			continue
		}
		if e.read {
			t.Errorf("%s: reads the kernel's types", text)
		}
		checkTree(t, p)
	}
}
