package process

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"culprit/collect/collecttest"

	"golang.org/x/sys/unix"
)

// lockThread returns the files of a thread of process 7 that has run for a time, and what it waits
// in.
func lockThread(tid, run int, call, wchan string) map[string]string {
	task := fmt.Sprintf("proc/7/task/%d/", tid)
	files := map[string]string{
		task + "stat":      fakeProcess{pid: tid, comm: "worker", start: 600}.stat(),
		task + "schedstat": fmt.Sprintf("%d 6 %d\n", run, run),
		task + "status": fmt.Sprintf("Cpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"+
			"voluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t4\n", run),
		task + "wchan":   wchan,
		task + "syscall": call,
	}
	if tid == 7 {
		files["proc/7/schedstat"] = files[task+"schedstat"]
		files["proc/7/status"] = "Uid:\t0\t0\t0\t0\n" + files[task+"status"]
	}
	return files
}

func futexCall(addr, op, word int) string {
	return fmt.Sprintf("%d 0x%x 0x%x 0x%x 0x0 0x0 0x0 0x7ffe 0x7fff\n", unix.SYS_FUTEX, addr, op,
		uint32(word))
}

// lockMemory returns the memory of process 7 with a mutex at an address.
func lockMemory(addr, owner int) map[string]string {
	lock := string([]byte{2, 0, 0, 0, 1, 0, 0, 0, byte(owner), byte(owner >> 8), 0, 0})
	return map[string]string{"proc/7/mem": strings.Repeat("\x00", addr) + lock}
}

const pause = "34 0x0 0x0 0x2 0x0 0x0 0x0 0x7ffe 0x7fff\n"

func TestLockWaiters(t *testing.T) {
	mutex, condition := futexCall(64, 0x80, 2), futexCall(64, 0x189, 4)
	const idle, holderWaits = 50, "the holder waits for another lock"
	const leader = "the holder waits for work"
	for _, tt := range []struct {
		name  string
		calls []string // of threads 71, 72 ...
		ran   int      // how many of these threads ran
		mem   map[string]string
		wchan string // of thread 71
		want  map[string]float64
	}{
		{"three threads wait for thread 71", []string{"running\n", mutex, mutex, mutex}, 4,
			lockMemory(64, 71), "0", map[string]float64{"0x40|71|": 3}},
		{"its holder sleeps", []string{pause, mutex, mutex, mutex}, 1,
			lockMemory(64, 71), "hrtimer_nanosleep",
			map[string]float64{"0x40|71|hrtimer_nanosleep": 3}},
		{"the holder is not known", []string{"running\n", mutex, mutex}, 3, lockMemory(64, 0), "0",
			map[string]float64{"0x40|0|": 2}},
		{"another process holds it", []string{"running\n", mutex, mutex}, 3,
			lockMemory(64, 99), "0", map[string]float64{"0x40|0|": 2}},
		{"one thread, the holder is not known", []string{"running\n", mutex}, 2,
			lockMemory(64, 0), "0", nil},
		{"threads that did not run, the holder is not known",
			[]string{"running\n", mutex, mutex}, 1, lockMemory(64, 0), "0", nil},
		{"an idle pool", []string{"running\n", condition, condition, condition}, 4,
			lockMemory(64, 71), "0", nil},
		{"two locks", []string{"running\n", futexCall(64, 0x86, 0), futexCall(80, 0x80, 2),
			futexCall(80, 0x80, 2)}, 4, lockMemory(80, 71), "0",
			map[string]float64{"0x40|0|": 1, "0x50|71|": 2}},
		{leader, []string{futexCall(80, 0x189, 4), mutex, mutex, mutex}, 4,
			lockMemory(64, 71), "futex_do_wait", nil},
		{"a thread waits for work, the holder is not known",
			[]string{futexCall(80, 0x89, -1), mutex, mutex, mutex}, 4, lockMemory(64, 0), "", nil},
		{holderWaits, []string{futexCall(80, 0x80, 2), mutex, mutex}, 3,
			lockMemory(64, 71), "futex_do_wait",
			map[string]float64{"0x40|71|futex_do_wait": 2}},
		{"musl", []string{"running\n", futexCall(64, 0x80, 71|1<<31)}, 2, lockMemory(64, 0), "0",
			map[string]float64{"0x40|71|": 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fakeProcess{pid: 7, comm: "server", threads: 1 + len(tt.calls), start: 600}
			files := merge(p.files("50 6 7", 1, 2, 3), lockThread(7, idle, pause, "do_pause"),
				tt.mem)
			for i, call := range tt.calls {
				files = merge(files, lockThread(71+i, idle, call, tt.wchan))
			}
			m := newProcessMachine(t, files)
			if rows := m.Read(true); len(matching(rows, "process.lock.waiters")) > 0 {
				t.Errorf("the first reading does not know what ran: %v", rows)
			}
			m.Put(lockThread(7, idle+1, pause, "do_pause"))
			for i, call := range tt.calls[:tt.ran] {
				m.Put(lockThread(71+i, idle+1, call, tt.wchan))
			}
			want := map[string]float64{}
			for k, v := range tt.want {
				want["process.lock.waiters|7|server|"+k] = v
			}
			collecttest.Expect(t, m.next(), "process.lock.waiters", want)
			if tt.name == leader { // it has work now: on a busy machine it waits for a CPU
				m.Put(lockThread(71, idle+2, "running\n", "0"))
				m.Put(lockThread(72, idle+2, mutex, ""))
			}
			if tt.name == holderWaits {
				return // nothing ran: that looks like a deadlock
			}
			// Nothing ran: a holder that does not sleep waits for a CPU, all others may be idle.
			maps.DeleteFunc(want, func(row string, _ float64) bool {
				return !strings.HasSuffix(row, "|71|") || tt.wchan != "0"
			})
			if len(want) == 0 {
				want = nil
			}
			collecttest.Expect(t, m.next(), "process.lock.waiters", want)
		})
	}
}

// Threads that hold the locks for which the others wait never run again. An idle pool does not
// either.
func TestLockWaitersOfDeadlock(t *testing.T) {
	first, second := futexCall(64, 0x80, 2), futexCall(96, 0x80, 2)
	mem := merge(lockMemory(96, 71))
	b := []byte(mem["proc/7/mem"])
	copy(b[64:], lockMemory(0, 72)["proc/7/mem"])
	mem["proc/7/mem"] = string(b)
	for _, tt := range []struct {
		name  string
		calls []string
		want  map[string]float64
	}{
		{"deadlock", []string{first, second, second}, map[string]float64{
			"process.lock.waiters|7|server|0x40|72|futex_do_wait": 1,
			"process.lock.waiters|7|server|0x60|71|futex_do_wait": 2}},
		{"a pool whose leader reads", []string{pause, second, second}, nil},
		{"a pool whose leader waits", []string{futexCall(40, 0x89, 4), second, second}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fakeProcess{pid: 7, comm: "server", threads: 4, start: 600}
			files := merge(p.files("50 6 7", 1, 2, 3), lockThread(7, 50, pause, "do_pause"), mem)
			for i, call := range tt.calls {
				files = merge(files, lockThread(71+i, 50, call, "futex_do_wait"))
			}
			m := newProcessMachine(t, files)
			m.Read(true)
			for range 2 {
				collecttest.Expect(t, m.next(), "process.lock.waiters", tt.want)
			}
			if reads := m.Reading.(*processReading).lockWaits.reads; reads > 0 {
				t.Errorf("%d calls were read again of threads that did not run", reads)
			}
		})
	}
}

// Of many threads some are read, and represent the others. Those that did not run since are not
// read again.
func TestLockWaitersOfManyThreads(t *testing.T) {
	const threads = 3 * mostLockThreads
	p := fakeProcess{pid: 7, comm: "server", threads: 1 + threads, start: 600}
	files := merge(p.files("50 6 7", 1, 2, 3), lockThread(7, 50, pause, "do_pause"),
		lockMemory(64, 101))
	files["proc/7/task/101/syscall"] = pause
	for i := range threads {
		files = merge(files, lockThread(101+i, 50, futexCall(64, 0x80, 2), "futex_do_wait"))
	}
	m := newProcessMachine(t, files)
	m.Read(true)
	m.Put(lockThread(7, 51, pause, "do_pause"))
	const turns = 5 // by then each thread was sampled
	for turn := range turns {
		rows := m.next()
		for k, v := range matching(rows, "process.lock.waiters") {
			if k != "process.lock.waiters|7|server|0x40|101|futex_do_wait" ||
				v < threads-8 || v > threads+8 {
				t.Errorf("%s: %g of %d threads", k, v, threads)
			}
		}
		most := mostLockThreads
		if turn == turns-1 {
			most = 1
		}
		if reads := m.Reading.(*processReading).lockWaits.reads; reads > most {
			t.Errorf("%d calls were read in turn %d, want at most %d", reads, turn, most)
		}
		m.Put(lockThread(7, 60+m.Reading.(*processReading).lockWaits.turn, pause, "do_pause"))
	}
}

// Processes that did not run are sampled too when those that did need all reads, and each of their
// calls is read once.
func TestLockWaitersOfManyProcesses(t *testing.T) {
	const busy = 2*mostLockReads/mostLockThreads + 1
	files := map[string]string{}
	add := func(pid, threads int, call string) {
		p := fakeProcess{pid: pid, comm: "server", threads: threads, start: 600}
		all := p.files("50 6 7", 1, 2, 3)
		for i := range threads {
			all = merge(all, lockThread(7, 50, call, "futex_do_wait"))
			for name, text := range lockThread(7, 50, call, "futex_do_wait") {
				name = strings.Replace(name, "proc/7/task/7/",
					fmt.Sprintf("proc/%d/task/%d/", pid, pid+i), 1)
				all[strings.Replace(name, "proc/7/", fmt.Sprintf("proc/%d/", pid), 1)] = text
			}
		}
		for name, text := range all {
			if strings.HasPrefix(name, fmt.Sprintf("proc/%d/", pid)) {
				files[name] = text
			}
		}
	}
	for i := range busy {
		add(1000*(i+1), mostLockThreads, pause)
	}
	add(9000, 3, futexCall(64, 0x80, 2))
	for name, text := range lockMemory(64, 9002) {
		files[strings.Replace(name, "/7/", "/9000/", 1)] = text
	}
	m := newProcessMachine(t, files)
	m.Read(true)
	for i := range busy {
		for k := range mostLockThreads {
			m.Put(map[string]string{fmt.Sprintf("proc/%d/task/%d/schedstat", 1000*(i+1),
				1000*(i+1)+k): "51 6 51\n"})
		}
		m.Put(map[string]string{fmt.Sprintf("proc/%d/schedstat", 1000*(i+1)): "51 6 51\n"})
	}
	rows := matching(m.next(), "process.lock.waiters")
	if len(rows) != 1 {
		t.Errorf("%v, want the deadlock of process 9000", rows)
	}
	if reads := m.Reading.(*processReading).lockWaits.reads; reads > mostLockReads+mostIdleReads {
		t.Errorf("%d calls were read", reads)
	}
}

func TestLockWaitersDenied(t *testing.T) {
	p := fakeProcess{pid: 7, comm: "server", threads: 2, start: 600}
	files := merge(p.files("50 6 7", 1, 2, 3), lockThread(7, 50, pause, ""),
		lockThread(71, 50, pause, ""))
	delete(files, "proc/7/task/7/syscall")
	delete(files, "proc/7/task/71/syscall")
	m := newProcessMachine(t, files)
	m.Read(true)
	files = lockThread(71, 51, pause, "")
	delete(files, "proc/7/task/71/syscall")
	for range 2 {
		if m.Reading.(*processReading).lockWaits.denied {
			t.Error("a process whose calls cannot be read may have ended")
		}
		m.Put(files)
		collecttest.Expect(t, m.next(), "process.lock.waiters", nil)
		files["proc/7/task/71/schedstat"] = "52 6 7\n"
	}
	if reads := m.Reading.(*processReading).lockWaits.reads; reads > 1 {
		t.Errorf("%d calls were read of a process whose calls may not be read", reads)
	}
	if !m.Reading.(*processReading).lockWaits.denied {
		t.Error("no note that the calls of a process may not be read")
	}
}
