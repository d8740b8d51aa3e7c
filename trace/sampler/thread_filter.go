package sampler

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/trace/probe"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// ThreadFilter selects threads: of each list that is not empty, one element must match.
type ThreadFilter struct {
	PIDs []int
	// Children makes the processes that those of PIDs start, and their children, match too.
	Children bool
	TIDs     []int
	// Processes are names of threads or of their processes. The kernel keeps 15 bytes.
	Processes []string
	// Cgroups are directories, or paths as in /proc/PID/cgroup. Groups below them match too.
	Cgroups []string
}

// A subject is the expressions of D for the thread that a clause selects.
type subject struct{ pid, tid, name, task string }

// table: made once, never changed
var (
	atHand        = subject{"pid", "tid", "execname", "curthread"}
	firstArgument = subject{
		"xlate <psinfo_t *> (args[0])->pr_pid",
		"xlate <lwpsinfo_t *> (args[0])->pr_lwpid",
		"stringof(args[0]->comm)",
		"args[0]",
	}
)

// commMost is how many bytes of a thread's name the kernel keeps.
const commMost = 15

// anyOf returns a term that is true when what has one of the values, or no term without values.
func anyOf(what string, values []int) []string {
	var each []string
	for _, v := range values {
		each = append(each, fmt.Sprintf("%s == %d", what, v))
	}
	return either(each)
}

func either(each []string) []string {
	if len(each) == 0 {
		return nil
	}
	return []string{"(" + strings.Join(each, " || ") + ")"}
}

// terms returns terms of D that all must be true for a selected thread.
func (w *ThreadFilter) terms(env *probe.Env, of subject) ([]string, error) {
	pids := anyOf(of.pid, w.PIDs)
	if w.follows() {
		pids = either(append(pids, fmt.Sprintf("%s[%s]", familyName, of.pid)))
	}
	terms := append(pids, anyOf(of.tid, w.TIDs)...)
	var each []string
	for _, name := range w.Processes {
		name = quoted(name[:min(len(name), commMost)])
		each = append(
			each,
			fmt.Sprintf(
				"%s == %s || stringof(%s->group_leader->comm) == %s", of.name, name, of.task, name,
			),
		)
	}
	terms = append(terms, either(each)...)
	each = nil
	for _, path := range w.Cgroups {
		term, err := cgroupTerm(env, path, of.task)
		if err != nil {
			return nil, fmt.Errorf("find cgroup %s: %w", path, err)
		}
		each = append(each, term)
	}
	return append(terms, either(each)...), nil
}

// familyName is the variable that is 1 for processes that those of PIDs have started.
const familyName = "family"

// follows reports whether children match.
func (w *ThreadFilter) follows() bool { return w.Children && len(w.PIDs) > 0 }

// family returns the clauses that follow children, or "".
func (w *ThreadFilter) family() string {
	if !w.follows() {
		return ""
	}
	parent := anyOf("pid", w.PIDs)[0]
	return fmt.Sprintf(
		"uint64_t %[1]s[uint64_t];\n"+
			"proc:::create /%[2]s || %[1]s[pid]/ { %[1]s[args[0]->pr_pid] = 1; }\n"+
			"proc:::exit /%[1]s[pid]/ { %[1]s[pid] = 0; }\n", familyName, parent,
	)
}

// quoted returns a string constant of D. Characters that are not printable ASCII are escaped.
func quoted(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return `"` + b.String() + `"`
}

// cgroupTerm returns a term that is true for threads in a control group or in one below it.
func cgroupTerm(env *probe.Env, path, task string) (string, error) {
	all, err := proc.Cgroups(env.Root())
	if err != nil {
		return "", err
	}
	at, dir, err := findCgroup(all, path)
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return "", err
	}
	below, err := filepath.Rel(at.Path, dir)
	if err != nil {
		return "", err
	}
	level := 0
	for _, part := range []string{at.Part, below} {
		if part = strings.Trim(part, "/"); part != "" && part != "." {
			level += 1 + strings.Count(part, "/")
		}
	}
	spec, err := env.BTF()
	if err != nil {
		return "", err
	}
	group := task + "->cgroups->dfl_cgrp"
	if !at.V2 {
		n, err := subsystem(spec, at.Controllers)
		if err != nil {
			return "", err
		}
		group = fmt.Sprintf("%s->cgroups->subsys[%d]->cgroup", task, n)
	}
	id := fmt.Sprintf("%s->ancestors[%d]->kn->id", group, level)
	var s *btf.Struct
	if err := spec.TypeByName("cgroup", &s); err != nil {
		return "", fmt.Errorf("%w: %w", err, measure.ErrUnsupported)
	}
	if !hasMember(s, "ancestors") && hasMember(s, "ancestor_ids") { // before Linux 6.1
		id = fmt.Sprintf("%s->ancestor_ids[%d]", group, level)
	}
	return fmt.Sprintf("(%s->level >= %d && %s == %d)", group, level, id, st.Ino), nil
}

// findCgroup returns the hierarchy and the directory of a group. path is a directory below a mount,
// or a path below the root of a hierarchy. For the latter it tries version 2 before version 1.
func findCgroup(all []proc.Cgroup, path string) (at proc.Cgroup, dir string, err error) {
	path = filepath.Clean(path)
	for _, c := range all {
		if (path == c.Path || strings.HasPrefix(path, strings.TrimSuffix(c.Path, "/")+"/")) &&
			len(c.Path) > len(at.Path) {
			at, dir = c, path
		}
	}
	if dir != "" {
		return at, dir, nil
	}
	for _, v2 := range []bool{true, false} {
		for _, c := range all {
			if full := filepath.Join(c.Path, path); c.V2 == v2 && (v2 || len(c.Controllers) > 0) &&
				unix.Access(full+"/cgroup.procs", unix.F_OK) == nil {
				return c, full, nil
			}
		}
	}
	return at, "", fmt.Errorf("no hierarchy of control groups contains it: %w", fs.ErrNotExist)
}

// subsystem returns the number of the first of a hierarchy's controllers.
func subsystem(spec *btf.Spec, controllers []string) (uint64, error) {
	if len(controllers) == 0 {
		return 0, fmt.Errorf("its hierarchy has no controller: %w", measure.ErrUnsupported)
	}
	name := controllers[0]
	if name == "blkio" {
		name = "io"
	}
	var ids *btf.Enum
	if err := spec.TypeByName("cgroup_subsys_id", &ids); err != nil {
		return 0, fmt.Errorf("%w: %w", err, measure.ErrUnsupported)
	}
	for _, v := range ids.Values {
		if v.Name == name+"_cgrp_id" {
			return v.Value, nil
		}
	}
	return 0, errors.Join(
		fmt.Errorf("the kernel has no controller %s", name), measure.ErrUnsupported,
	)
}
