package complete

import (
	"slices"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/kernel"
	"culprit/lang/check"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace/probe"

	"github.com/cilium/ebpf/btf"
)

// machine is an Env with a few probes and types.
type machine struct{}

func machineTypes() (*btf.Struct, *btf.Struct) {
	number := &btf.Int{Name: "int", Size: 4}
	device := &btf.Struct{Name: "net_device", Members: []btf.Member{
		{Name: "mtu", Type: number}, {Type: &btf.Union{Members: []btf.Member{
			{Name: "flags", Type: number}, {Name: "priv_flags", Type: number},
		}}},
	}}
	buffer := &btf.Struct{Name: "sk_buff", Members: []btf.Member{
		{Name: "len", Type: number}, {Name: "dev", Type: &btf.Pointer{Target: device}},
	}}
	return buffer, device
}

func (machine) BTF() (*btf.Spec, error) { return nil, measure.ErrUnsupported }

func (machine) Probes(d *syntax.Probe) ([]*check.Probe, error) {
	buffer, _ := machineTypes()
	switch d.Provider.Text {
	case "sdt":
		return []*check.Probe{{Args: []check.Arg{
			{Name: "skb", Type: &btf.Pointer{Target: &btf.Const{Type: buffer}}},
			{Name: "why", C: "int"},
		}}}, nil
	case "tracepoint":
		return []*check.Probe{{Args: []check.Arg{
			{Name: "bytes", C: "unsigned int", Field: check.FieldUnsigned},
		}}}, nil
	case "io":
		return []*check.Probe{{Args: []check.Arg{{Xlate: "bufinfo_t"}}}}, nil
	}
	return nil, &probe.NoProbe{}
}

func (machine) List(d *syntax.Probe, each func(probe.Listed)) error {
	for _, l := range []probe.Listed{
		{Provider: "fbt", Module: "vmlinux", Function: "tcp_sendmsg", Name: "entry"},
		{Provider: "fbt", Module: "vmlinux", Function: "tcp_sendmsg", Name: "return"},
		{Provider: "fbt", Module: "nfs", Function: "nfs_read", Name: "entry"},
		{Provider: "sdt", Module: "net", Name: "netif_receive_skb"},
	} {
		match := func(pattern, text string) bool {
			middle := strings.Trim(pattern, "*")
			if strings.HasPrefix(pattern, "*") {
				return strings.Contains(text, middle)
			}
			return pattern == "" || pattern == text ||
				strings.HasSuffix(pattern, "*") && strings.HasPrefix(text, middle)
		}
		if match(d.Provider.Text, l.Provider) && match(d.Module.Text, l.Module) &&
			match(d.Function.Text, l.Function) && match(d.Name.Text, l.Name) {
			each(l)
		}
	}
	return nil
}

// A position is marked by a bar. The words are the first ones, and + means that there are others.
func TestAt(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"an empty text", "|", "BEGIN END ERROR tick-1s profile-97 +"},
		{"a provider", "sy|", "syscall: sysinfo:"},
		{"a provider after a clause", "BEGIN { x = 1; }\nsdt|", "sdt:"},
		{"a provider after a comment", "/* first */ lock|", "lockstat:"},
		{"the second description", "sdt:net::x,\nuret|", "uretprobe:"},
		{"modules", "fbt:|", ": nfs: vmlinux:"},
		{"a module", "fbt:v|", "vmlinux:"},
		{"functions", "fbt::|", "nfs_read: tcp_sendmsg:"},
		{"a function", "fbt::tcp|", "tcp_sendmsg:"},
		{"names", "fbt::tcp_sendmsg:|", "entry return"},
		{"a name that is complete", "fbt::tcp_sendmsg:entry|", ""},
		{"a path", "uprobe:/usr/bin/sh:ma|", ""},
		{"arguments", "sdt:net::x { ar|", "args[0] args[1] args arg0 arg1 +"},
		{"arguments in a predicate", "sdt:net::x /args[|", "args[0] args[1]"},
		{"a predicate", "sdt:net::x\n/execn|", "execname"},
		{"behind a predicate", "sdt:net::x /pid / 2 > 1/ { unam|", ""},
		{"a member", "sdt:net::x { trace(args[0]->|", "len dev"},
		{"a member of a member", "sdt:net::x /args[0]->dev->|", "mtu flags priv_flags"},
		{"a member that begins", "sdt:net::x { trace(args[0]->dev->fl|", "flags"},
		{"an argument that is not there", "sdt:net::x { trace(args[7]->|", ""},
		{"a field of an event", "tracepoint:x::y { trace(args.|", "bytes"},
		{"a translated member", "io:::start { trace(args[0]->b_b|", "b_bcount b_bufsize b_blkno"},
		{"of the thread", "BEGIN { self->since = 1; self->s|", "since"},
		{"of the clause", "BEGIN { this->a = 1; this->|", "a"},
		{"a global", "BEGIN { total = 1; other++; to|", "total tolower( toupper("},
		{"a declared one", "uint64_t total;\nBEGIN { tot|", "total"},
		{"aggregations", "BEGIN { @bytes[pid] = sum(1); @b|", "bytes"},
		{"an aggregating function", "BEGIN { @x[execname] = qu|", "quantize("},
		{"an option", "#pragma D option qui|", "quiet quietresize"},
		{"inside a string", `BEGIN { printf("exec|`, ""},
		{"behind a string", `BEGIN { printf("a \" /* } %d", exec|`, "execargs execname"},
		{"inside a comment", "BEGIN { /* exec|", ""},
		{"behind a division", "BEGIN { x = 4 / exec|", "execargs execname"},
		{"in the middle", "BEGIN { exec|name }", "execargs execname"},
		{"a variable of the kernel", "BEGIN { `jif|", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after, _ := strings.Cut(tt.text, "|")
			got, err := At(machine{}, before+after, len(before))
			if err != nil {
				t.Fatal(err)
			}
			var words []string
			for i, w := range got.Words {
				if i == 5 {
					words = append(words, "+")
					break
				}
				words = append(words, w.Text)
			}
			if text := strings.Join(words, " "); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
			end := len(before)
			if after == "name }" {
				end += len("name")
			}
			if got.To != end || got.From > got.To {
				t.Errorf("it replaces %d to %d", got.From, got.To)
			}
		})
	}
	if _, err := At(machine{}, "BEGIN", 6); err == nil {
		t.Error("a position behind the end")
	}
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"sendmsg", "fbt:vmlinux:tcp_sendmsg:entry fbt:vmlinux:tcp_sendmsg:return"},
		{"receive", "sdt:net::netif_receive_skb"},
		{"fbt::nfs_read:entry", "fbt:nfs:nfs_read:entry"},
		{"nothing of it", ""},
	} {
		t.Run(tt.text, func(t *testing.T) {
			got, err := Match(machine{}, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			var words []string
			for _, w := range got.Words {
				words = append(words, w.Text)
				if w.Kind != "probe" {
					t.Errorf("%+v", w)
				}
				want := ""
				if strings.HasPrefix(w.Text, "sdt:") {
					want = "args[0] const struct sk_buff *skb, args[1] int why"
				}
				if w.Help != want {
					t.Errorf("%s has %q, want %q", w.Text, w.Help, want)
				}
			}
			if text := strings.Join(words, " "); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
	if _, err := Match(machine{}, "a:b:c:d:e:f"); err == nil {
		t.Error("a description of six parts")
	}
}

// What the lists of this machine contain is completed, and each word of a completion is known to
// the compiler.
func TestAtOnThisMachine(t *testing.T) {
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	for _, tt := range []struct{ text, want string }{
		{"syscall::openat:", "entry"},
		{"syscall::opena", "openat:"},
	} {
		got, err := At(env, tt.text, len(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(got.Words, func(w Word) bool { return w.Text == tt.want }) {
			t.Skip("needs: root")
		}
	}
	for _, w := range providers {
		if name := strings.TrimSuffix(w.Text, ":"); !slices.Contains(probe.ProviderNames(), name) {
			t.Errorf("%s is no provider", name)
		}
	}
	for _, name := range probe.ProviderNames() {
		if !slices.ContainsFunc(providers, func(w Word) bool { return w.Text == name }) {
			t.Errorf("%s is not completed", name)
		}
	}
	for name := range meanings {
		if !slices.ContainsFunc(check.Words(), func(w check.Word) bool { return w.Name == name }) {
			t.Errorf("%s is no word of D", name)
		}
	}
}

// FuzzAt: whatever the text, a completion is within it and bounded.
func FuzzAt(f *testing.F) {
	for _, text := range []string{"sdt:net::x /args[0]->dev->", "BEGIN { \"", "#pragma D option ",
		"a /b/ c { @x[", "/*", "//", "x:::/", "'", "{{{}}}//"} {
		f.Add(append([]byte{byte(len(text))}, text...))
	}
	limit := heapbound.Limit{Base: 4 << 20, PerByte: 4096}
	heapbound.FuzzWithin(f, limit, func(t *testing.T, b []byte) {
		text, pos := string(b[min(len(b), 1):]), len(b)-1
		if len(b) > 0 {
			pos = int(b[0])
		}
		got, err := At(machine{}, text, pos)
		if pos < 0 || pos > len(text) {
			if err == nil {
				t.Fatal("a position that is not in the text")
			}
			return
		}
		if err == nil && (got.From < 0 || got.From > pos || got.To < pos || got.To > len(text) ||
			len(got.Words) > MaxWords) {
			t.Errorf("%q at %d: %+v", text, pos, got)
		}
	})
}
