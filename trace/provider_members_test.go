package trace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/lang/gen"
	"culprit/lang/syntax"
)

// translated returns the members that the library's translators to a type have, by type.
func translated(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../lang/check/lib/*.d")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 { // in an emulated machine the tests stand alone
		t.Skip("needs: tool sources (the library of lang/check beside this test)")
	}
	all := map[string][]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?ms)^translator (\w+) <.*?^};`).FindAllStringSubmatch(string(text), -1) {
			for _, member := range regexp.MustCompile(`(?m)^\t(\w+) = `).FindAllStringSubmatch(m[0], -1) {
				if !slices.Contains(all[m[1]], member[1]) {
					all[m[1]] = append(all[m[1]], member[1])
				}
			}
		}
	}
	return all
}

// loads reports why the kernel refuses a script; nil where it loads, or where the compiler says that a translator lacks the member.
func loads(e *Env, text string) error {
	c, err := Compile(Script{Text: text}, e, gen.Limits{})
	var ds syntax.Diagnostics
	if errors.As(err, &ds) && strings.Contains(err.Error(), "does not give ") {
		return nil
	}
	if err != nil {
		return err
	}
	s, err := Load(c, e)
	if err != nil {
		return err
	}
	s.Close()
	return nil
}

// TestMembersLoad: the verifier takes each member of each argument of each stable probe.
func TestMembersLoad(t *testing.T) {
	if kernel.RawTracepoints.Have(kernel.Root{}) != nil {
		t.Skip("needs: root (BPF)")
	}
	e := here(t)
	members, loaded := translated(t), map[string]bool{}
	for _, p := range stableProbes() {
		name := p.provider + ":::" + p.name
		list, err := e.Probes(described(t, name))
		if err != nil || len(list) == 0 || list[0].Meaning == nil {
			continue // this kernel lacks it
		}
		args, _ := list[0].Arguments()
		for i, a := range args {
			uses := []string{fmt.Sprintf("trace(args[%d]);", i)}
			if a.Xlate != "" {
				uses = nil
			}
			for _, m := range members[a.Xlate] {
				uses = append(uses, fmt.Sprintf("trace(args[%d]->%s);", i, m))
			}
			for _, use := range uses {
				// Probes that share a tracepoint, the text of an argument and what is told of it share the result.
				key := fmt.Sprint(list[0].Meaning.Event, list[0].Site, a.D, a.With, use)
				if loaded[key] {
					continue
				}
				loaded[key] = true
				if err := loads(e, name+" { "+use+" }"); err != nil {
					t.Errorf("%s { %s }: %v", name, use, err)
				}
			}
		}
	}
	if len(loaded) < 100 {
		t.Errorf("%d uses were loaded", len(loaded))
	}
}

// TestObjectsAreNumbers: the verifier takes each operator on addresses of objects that it tracks: arguments that may be NULL,
// members of them, and the current thread.
func TestObjectsAreNumbers(t *testing.T) {
	if kernel.RawTracepoints.Have(kernel.Root{}) != nil {
		t.Skip("needs: root (BPF)")
	}
	e := here(t)
	if _, err := e.BTF(); err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	for _, object := range []string{"args[1]", "args[1]->real_parent", "curthread", "curthread->real_parent", "(args[0] ? args[1] : NULL)", "(args[0] ? NULL : args[1]->mm)"} {
		var uses strings.Builder
		for _, op := range []string{"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "==", "&&"} {
			fmt.Fprintf(&uses, "trace((uint64_t)%s %s 7); trace((uint64_t)%s %s arg0); ", object, op, object, op)
		}
		fmt.Fprintf(&uses, "trace(-(int64_t)%s); trace(~(uint64_t)%s); trace((uint16_t)(uint64_t)%s); @[%s] = sum((int64_t)%s); ", object, object, object, object, object)
		fmt.Fprintf(&uses, "x[%s] = 1; trace(((struct tcp_sock *)%s)->snd_cwnd); trace(stringof((char *)%s)); ", object, object, object)
		for use := range strings.SplitSeq(strings.TrimSuffix(uses.String(), "; "), "; ") {
			if err := loads(e, "sdt:sched::sched_switch { "+use+"; }"); err != nil {
				t.Errorf("%s: %v", use, err)
			}
		}
	}
}
