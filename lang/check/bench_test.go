package check_test

import (
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/syntax"
)

// script returns a program of about n lines, like those that people write.
func script(lines int) string {
	const clause = `syscall::read:entry,
syscall::write:entry
/execname != "dtrace" && self->start == 0/
{
	self->start = timestamp;
	self->size = arg2 > 65536 ? 65536 : arg2;
	this->name = stringof(((struct task_struct *)curthread)->comm);
	@calls[probefunc, this->name] = count();
	printf("%-16s %6d %s\n", execname, pid, copyinstr(arg0));
}
`
	return "self uint64_t start;\n" + strings.Repeat(clause, lines/strings.Count(clause, "\n"))
}

func benchmark(b *testing.B, text string) {
	prog, ds := syntax.Parse(text, syntax.Mode{})
	if ds != nil {
		b.Fatal(ds)
	}
	e := smallEnv(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, ds := check.Check("", text, prog, e, check.Options{}); ds != nil {
			b.Fatal(ds)
		}
	}
}

func BenchmarkCheck(b *testing.B) { benchmark(b, script(500)) }

func BenchmarkOneLiner(b *testing.B) {
	benchmark(b, `profile-997 /arg0 && cpu==23/ { @[stack()] = count(); } tick-60s { exit(0); }`)
}
