package process

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// openWalk returns a walk, or skips the test if there is none.
func openWalk(t *testing.T) *taskWalk {
	t.Helper()
	tasks, err := bpf.OpenTasks(kernel.Root{})
	switch {
	case errors.Is(err, measure.ErrDenied):
		t.Skip("needs: cap:CAP_BPF:", err)
	case errors.Is(err, measure.ErrUnsupported):
		t.Skip("needs: kernel feature task iterators:", err)
	case err != nil:
		t.Fatal(err)
	}
	w := &taskWalk{tasks: tasks}
	w.each = w.take
	t.Cleanup(w.close)
	return w
}

// If the signs of a process are unchanged from one walk to the next, no file of it that was read
// between them has changed. This must hold for every process of the machine.
func TestSignsOfTheWalkHold(t *testing.T) {
	w := openWalk(t)
	dir, err := proc.OpenProcDir(kernel.Root{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	walk := func() map[int32]taskSigns {
		t.Helper()
		if !w.look(dir) {
			t.Fatal("no walk")
		}
		all := map[int32]taskSigns{}
		for _, f := range w.found {
			all[f.pid] = f.signs
		}
		return all
	}
	type said struct{ pulse, rest, cgroups string }
	files := func() map[int32]said {
		t.Helper()
		pids, err := dir.ListPIDs(nil)
		if err != nil {
			t.Fatal(err)
		}
		all := map[int32]said{}
		for _, pid := range pids {
			tids, err := dir.ListTIDs(pid, nil)
			if err != nil {
				continue
			}
			var s said
			for _, tid := range tids {
				// none: the thread has ended, which is a change too
				b, _ := dir.ReadPIDOne(pid, fmt.Sprintf("task/%d/schedstat", tid), nil)
				s.pulse += fmt.Sprintf("%d: %s", tid, b)
			}
			var st procStat
			if b, err := dir.ReadPIDOne(pid, "stat", nil); err == nil && st.parseStat(b) {
				s.rest = fmt.Sprintf("%c, parent %d, %d pages", st.state, st.parent, st.rss)
			}
			b, _ := dir.ReadPID(pid, "cgroup", nil)
			s.cgroups = string(b)
			all[pid] = s
		}
		return all
	}
	startSleepers(t, 3)
	burner := start(t, "200ms") // it runs now, and is a zombie later
	defer unix.Wait4(burner, nil, 0, nil)
	ran, still := 0, 0
	for range 4 {
		signs, before := walk(), files()
		time.Sleep(70 * time.Millisecond)
		after, signsAfter := files(), walk()
		for pid, a := range before {
			b, there := after[pid]
			x, y := signs[pid], signsAfter[pid]
			if !there || !x.known || !y.known {
				continue
			}
			if x.pulse == y.pulse {
				still++
				if a.pulse != b.pulse {
					t.Errorf("process %d did not run, and its threads' schedstat went from %q "+
						"to %q", pid, a.pulse, b.pulse)
				}
				if x.rest == y.rest && a.rest != b.rest {
					t.Errorf(
						"process %d shows nothing new, and its stat went from %s to %s", pid,
						a.rest, b.rest,
					)
				}
			} else if ran++; pid == int32(os.Getpid()) {
				ran += 1000
			}
			if x.pulse == y.pulse && x.cgroups == y.cgroups && a.cgroups != b.cgroups {
				t.Errorf(
					"process %d slept in the same control groups, which went from %s to %s", pid,
					a.cgroups, b.cgroups,
				)
			}
		}
		for pid := range before {
			if _, there := after[pid]; there && !signs[pid].known && !signsAfter[pid].known &&
				w.whole {
				t.Errorf("process %d is in /proc, and the walk has not found it and takes "+
					"itself for whole", pid)
			}
		}
	}
	if ran < 4000 || still == 0 {
		t.Errorf("%d ran (this one counts a thousand) and %d did not: this one must have, four "+
			"times, and others must have slept", ran, still)
	}
}

// A thread in the middle of execve may be all that the walk sees of its process. The process exists
// all the same and is listed.
func TestProcessOfWhichOnlyAThreadIsSeen(t *testing.T) {
	w := &taskWalk{}
	for _, k := range []bpf.Task{
		{PID: 3, TID: 3, Count: 1}, {PID: 9, TID: 9, Count: 5}, {PID: 5, TID: 11, Count: 1},
		{PID: 9, TID: 12, Count: 2},
	} {
		w.take(&k)
	}
	w.sort()
	if got := fmt.Sprint(w.list(nil)); got != "[3 5 9]" {
		t.Fatalf("processes %s, want [3 5 9]", got)
	}
	if w.found[0].signs.known == false || w.found[1].signs.known ||
		w.found[2].signs.pulse == mixed(0, 0, 5, 9) {
		t.Errorf("signs %+v: those of 5 are not known, those of 9 are of both its threads", w.found)
	}
}
