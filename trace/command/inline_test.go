package command

import (
	"regexp"
	"testing"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"
)

// ustack() has inlined functions only with -x inline.
func TestStackInlined(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	whole := regexp.MustCompile(
		"(?s)`spin_\\[i\\]\n +[^ ]*`middle_\\[i\\]\n +[^ ]*`outer\\+0x[0-9a-f]+\n +[^ ]*`main\\+0x",
	)
	r := program(
		"%s",
		`profile-199 /pid == $target/ { @[ustack()] = count(); n++; } profile-199 /n >= 20/ { exit(0); }`,
	)
	r.Processes = []int{
		tracetest.Start(t, tracetest.CompileC(t, tracetest.InlinedCalls, "-O2", "-g")),
	}
	for _, inline := range []bool{false, true} {
		if inline {
			r.Options = append(r.Options, "inline")
		}
		_, out, errs := traced(t, r, nil)
		if whole.MatchString(out) != inline {
			t.Errorf("inline %v printed %q and said %q", inline, out, errs)
		}
	}
}
