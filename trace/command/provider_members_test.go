package command

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/trace"
	"culprit/trace/probe"
	"culprit/trace/tracetest"
)

// translated returns the members that the library's translators to a type have, by type.
func translated(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, text := range check.Library() {
		for _, m := range regexp.MustCompile(`(?ms)^translator (\w+) <.*?^};`).FindAllStringSubmatch(text, -1) {
			for _, member := range regexp.MustCompile(`(?m)^\t(\w+) = `).FindAllStringSubmatch(m[0], -1) {
				if !slices.Contains(all[m[1]], member[1]) {
					all[m[1]] = append(all[m[1]], member[1])
				}
			}
		}
	}
	if len(all) < 5 {
		t.Fatalf("translators of %d types", len(all))
	}
	return all
}

// loads reports why the kernel refuses a script; nil where it loads, or where the compiler says
// that a translator lacks the member.
func loads(e *probe.Env, text string) error {
	c, err := trace.Compile(trace.Script{Text: text}, e, gen.Limits{})
	if len(lacking(err)) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	s, err := trace.Load(c, e)
	if err != nil {
		return err
	}
	s.Close()
	return nil
}

// lacking returns the lines of a script that name members which a translator does not define; nil
// where the script has another error.
func lacking(err error) (lines []int) {
	var ds syntax.Diagnostics
	if !errors.As(err, &ds) {
		return nil
	}
	for _, d := range ds {
		if d.Code != check.NoConversion {
			return nil
		}
		lines = append(lines, d.Line)
	}
	return lines
}

// loadAll loads a probe with all uses in one script, one per line, which takes an emulated machine
// a tenth of the time. Where that is refused it loads each use by itself.
func loadAll(t *testing.T, e *probe.Env, name string, uses []string) {
	t.Helper()
	for len(uses) > 0 {
		c, err := trace.Compile(
			trace.Script{Text: name + " {\n" + strings.Join(uses, "\n") + "\n}"}, e, gen.Limits{},
		)
		if lines := lacking(err); len(lines) > 0 {
			for _, line := range slices.Backward(slices.Compact(lines)) {
				uses = slices.Delete(uses, line-2, line-1) // the first stands in line 2
			}
			continue
		}
		if err == nil {
			var s *trace.Session
			if s, err = trace.Load(c, e); err == nil {
				s.Close()
				return
			}
		}
		break
	}
	for _, use := range uses {
		if err := loads(e, name+" { "+use+" }"); err != nil {
			t.Errorf("%s { %s }: %v", name, use, err)
		}
	}
}

// The verifier accepts each member of each argument of each stable probe.
func TestMembersLoad(t *testing.T) {
	if feature.RawTracepoints.Have(kernel.Root{}) != nil {
		t.Skip("needs: root (BPF)")
	}
	e := tracetest.Here(t)
	members, loaded := translated(t), map[string]bool{}
	for _, name := range probe.StableNames() {
		list, err := e.Probes(tracetest.Probe(t, name))
		if err != nil || len(list) == 0 || list[0].Meaning == nil {
			continue // this kernel lacks it
		}
		var uses []string
		args, _ := list[0].Arguments()
		for i, a := range args {
			each := []string{fmt.Sprintf("trace(args[%d]);", i)}
			if a.Xlate != "" {
				each = nil
			}
			for _, m := range members[a.Xlate] {
				each = append(each, fmt.Sprintf("trace(args[%d]->%s);", i, m))
			}
			for _, use := range each {
				// Probes that share a tracepoint, the text of an argument and its type
				// share the result.
				key := fmt.Sprint(list[0].Meaning.Event, list[0].Site, a.D, a.With, use)
				if !loaded[key] {
					loaded[key] = true
					uses = append(uses, use)
				}
			}
		}
		loadAll(t, e, name, uses)
	}
	t.Logf("%d uses", len(loaded))
	if len(loaded) < 100 {
		t.Errorf("%d uses were loaded", len(loaded))
	}
}

// The verifier accepts each operator on addresses of objects that it tracks:
// arguments that may be NULL, members of them, and the current thread.
func TestObjectsAreNumbers(t *testing.T) {
	if feature.RawTracepoints.Have(kernel.Root{}) != nil {
		t.Skip("needs: root (BPF)")
	}
	e := tracetest.Here(t)
	if _, err := e.BTF(); err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	for _, object := range []string{"args[1]", "args[1]->real_parent", "curthread", "curthread->real_parent", "(args[0] ? args[1] : NULL)", "(args[0] ? NULL : args[1]->mm)"} {
		var uses strings.Builder
		for _, op := range []string{"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "==", "&&"} {
			fmt.Fprintf(
				&uses, "trace((uint64_t)%s %s 7); trace((uint64_t)%s %s arg0); ", object, op,
				object, op,
			)
		}
		fmt.Fprintf(
			&uses,
			"trace(-(int64_t)%s); trace(~(uint64_t)%s); trace((uint16_t)(uint64_t)%s); @[%s] = sum((int64_t)%s); ",
			object, object, object, object, object,
		)
		fmt.Fprintf(
			&uses,
			"x[%s] = 1; trace(((struct tcp_sock *)%s)->snd_cwnd); trace(stringof((char *)%s)); ",
			object, object, object,
		)
		list := strings.Split(strings.TrimSuffix(uses.String(), "; "), "; ")
		for i := range list {
			list[i] += ";"
		}
		loadAll(t, e, "sdt:sched::sched_switch", list)
	}
}

// A script can read a member by its name in older or newer kernels.
func TestRenamedMembers(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	e := tracetest.Here(t)
	if _, err := e.BTF(); err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	for _, member := range []string{"state", "__state"} {
		if err := loads(e, "BEGIN { trace(curthread->"+member+"); }"); err != nil {
			t.Errorf("%s: %v", member, err)
		}
	}
}

// The error for a missing stable probe names the version of Linux that brought its tracepoint, if
// newer kernels have it. Tests of emulated kernels read the log of this test: a probe that a newer
// kernel has and this one lacks must name a version.
func TestMissingProbesNameVersions(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	e := tracetest.Here(t)
	seen := map[string]bool{}
	for _, name := range probe.StableNames() {
		if seen[name] {
			continue
		}
		seen[name] = true
		list, err := e.Probes(tracetest.Probe(t, name))
		switch {
		case err != nil:
			t.Logf("probe\t%s\t%s", name, strings.ReplaceAll(err.Error(), "\n", " "))
		case len(list) == 0:
			t.Logf("probe\t%s\tmissing", name)
		default:
			// it may have several places, and a kernel only some
			t.Logf("probe\t%s\tyes %d", name, len(list))
		}
	}
}
