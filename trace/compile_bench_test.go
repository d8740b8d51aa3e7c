package trace

import (
	"fmt"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/trace/probe"
)

// BenchmarkCompileLong makes instructions of a script of ten thousand lines, which is at all system
// calls: a program for each.
func BenchmarkCompileLong(b *testing.B) {
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	var names []string
	list, diags := syntax.ParseProbes("syscall:::entry", syntax.Mode{})
	if len(diags) > 0 {
		b.Fatal(diags)
	}
	err := env.List(list[0], func(l probe.Listed) { names = append(names, l.Function) })
	if err != nil {
		b.Fatal(err)
	}
	if len(names) == 0 {
		b.Skip("needs: root")
	}
	var text strings.Builder
	text.WriteString("self uint64_t start;\n")
	for i := range 1111 {
		fmt.Fprintf(&text, `syscall::%s:entry,
syscall::%s:entry
/execname != "dtrace" && self->start == 0/
{
	self->start = timestamp;
	self->size = arg2 > 65536 ? 65536 : arg2;
	@calls[probefunc, execname] = count();
	printf("%%-16s %%6d %%d\n", execname, pid, arg0);
}
`, names[i%len(names)], names[(7*i+1)%len(names)])
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(Script{Text: text.String()}, env, gen.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
