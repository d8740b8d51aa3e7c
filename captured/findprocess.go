package captured

import (
	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"fmt"
	"slices"
	"strings"
)

// topProcess returns the process with most CPU, nil when none has a tenth of a CPU or no table of
// processes was captured.
func (s *study) topProcess() (most *Row) {
	for _, t := range s.of(Processes) {
		for _, r := range t.measured() {
			if v := r.Num("cpu"); v >= 100*threshold.FunctionLeast &&
				(most == nil || v > most.Num("cpu")) {
				most = r
			}
		}
	}
	if most == nil {
		for _, t := range s.of(Processes) {
			for _, r := range t.measured() {
				if v := r.Num("cpu"); v > 0 && (most == nil || v > most.Num("cpu")) {
					most = r
				}
			}
		}
	}
	return most
}

// processes judges processes by state and CPU time.
func (s *study) processes() {
	for _, t := range s.of(Processes) {
		var waiting, zombies []*Row
		for _, r := range t.measured() {
			state := r.Word("state")
			switch {
			case strings.HasPrefix(state, "D"):
				waiting = append(waiting, r)
			case state == "Z" || strings.HasPrefix(state, "Z") && len(state) < 4:
				zombies = append(zombies, r)
			}
		}
		s.clear("process", "%s in %s, most CPU %s", phrase.Plural(len(t.measured()), "row",
			"rows"), t.Tool, mostText(s.topProcess()))
		if float64(len(waiting)) >= threshold.DoubtBlocked {
			s.blocked(waiting[0], float64(len(waiting)), "processes are in state D")
		}
		if len(zombies) >= 100 {
			f := s.find("zombies", "machine", diagnose.Low, 0.8, diagnose.Culprit{Kind: "process",
				Name: zombies[0].Word("command")}, fmt.Sprintf("%d zombies wait for their parents.",
				len(zombies)))
			evidence(f, zombies[0], float64(len(zombies)), "process", "%d zombies", len(zombies))
		}
		s.busyThread(t)
	}
}

func mostText(r *Row) string {
	if r == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s", phrase.Clean(r.Word("command")), percent(r.Num("cpu")))
}

// busyThread finds a process that uses about one CPU: a thread of it may saturate it. prstat prints
// shares of all CPUs, top and ps those of one.
func (s *study) busyThread(t *Table) {
	if t.Tool == "prstat" {
		return
	}
	for _, r := range t.measured() {
		cpu := r.Num("cpu") / 100
		command := r.Word("command")
		if !(cpu >= threshold.OneFull && cpu <= threshold.OneWide) ||
			s.find1any("cpu-saturated") != nil || s.find1("cpu-one-saturated/"+command) != nil {
			continue
		}
		f := s.find("cpu-one-saturated", command, diagnose.Medium, 0.6,
			diagnose.Culprit{Kind: "process", Name: command, PID: int(zero(r.Num("pid")))},
			fmt.Sprintf("%s uses %s of a CPU: one thread may saturate it.", phrase.Clean(command),
				phrase.Percent(cpu)))
		evidence(f, r, cpu, "1", "%s: %s of a CPU", command, phrase.Percent(cpu))
		caveat(f, "The table does not show threads: top -H or pidstat -t 1 does.")
		f.Verify = "top -H -p " + phrase.Shell(r.Word("pid"))
	}
}

func (s *study) blocked(r *Row, n float64, what string) {
	if s.find1any("process-blocked") != nil {
		return
	}
	f := s.find("process-blocked", "machine", diagnose.Medium, 0.7, diagnose.Culprit{Kind: "host",
		Name: "blocked tasks"}, fmt.Sprintf("%s %s.", phrase.Count(n), what))
	evidence(f, r, n, "task", "%s %s", phrase.Count(n), what)
	caveat(
		f,
		"The table does not show for what they wait: cat /proc/PID/wchan, or culprit profile "+
			"--off-cpu.",
	)
	f.Verify = "ps -eo state,pid,wchan:32,comm | grep ^D"
}

// threads judges the microstates of prstat -m.
func (s *study) threads() {
	for _, t := range s.of(Threads) {
		s.shown["process"] = true
		for _, state := range []struct {
			column, claim string
			least         float64
		}{
			{"lat", "waits for a CPU", 15}, {"lck", "waits for user locks", 50},
			{"dfl", "waits for pages of files (data faults)", 20},
			{"tfl", "waits for pages of text", 20},
		} {
			var most *Row
			for _, r := range t.measured() {
				if v := r.Num(state.column); v >= state.least &&
					(most == nil || v > most.Num(state.column)) {
					most = r
				}
			}
			if most == nil || state.column == "lck" && most.Num("usr")+most.Num("sys") < 1 {
				continue
			}
			command := most.Word("command")
			f := s.find("thread-"+state.column, command, diagnose.Medium, 0.75,
				diagnose.Culprit{Kind: "process", Name: command, PID: int(zero(most.Num("pid")))},
				fmt.Sprintf("%s %s %s of the time.", phrase.Clean(command), state.claim,
					percent(most.Num(state.column))))
			evidence(f, most, most.Num(state.column)/100, "1", "%s: usr %s, sys %s, %s %s",
				command, percent(zero(most.Num("usr"))), percent(zero(most.Num("sys"))),
				state.column, percent(most.Num(state.column)))
			f.Verify = "prstat -mLc 1 5"
		}
	}
}

// locks judges contention that lockstat prints.
func (s *study) locks() {
	for _, t := range s.of(Locks) {
		most := slices.MaxFunc(t.Rows, func(a, b *Row) int {
			return compare(a.Num("count")*a.Num("ns"), b.Num("count")*b.Num("ns"))
		})
		total := 0.0
		for _, r := range t.Rows {
			total += r.Num("count") * r.Num("ns")
		}
		lock := most.Word("lock")
		share := most.Num("count") * most.Num("ns") / total
		severity := diagnose.Low
		if most.Num("count")*most.Num("ns") >= 1e9 {
			severity = diagnose.Medium
		}
		f := s.find("lock-contention", lock, severity, 0.6,
			diagnose.Culprit{Kind: "function", Name: lock}, fmt.Sprintf(
				"%s is the lock with most contention: %s times, %s each, from %s.", lock,
				phrase.Count(most.Num("count")), phrase.Duration(most.Num("ns")),
				most.Word("function")))
		evidence(f, most, share, "1", "%s of the time listed; in all %s",
			phrase.Percent(share), phrase.Duration(most.Num("count")*most.Num("ns")))
		if t.Subject != "" {
			caveat(f, "The table is of "+t.Subject+".")
		}
		f.Verify = "lockstat sleep 5"
	}
}
