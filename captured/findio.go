package captured

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// topIO returns the process that reads and writes most; nil when no table shows that.
func (s *study) topIO() (most *Row) {
	for _, t := range s.of(Processes) {
		for _, r := range t.measured() {
			if v := ioOf(r); v > 0 && (most == nil || v > ioOf(most)) {
				most = r
			}
		}
	}
	return most
}

// ioOf returns the bytes that a process reads and writes per second.
func ioOf(r *Row) float64 { return zero(r.Num("read")) + zero(r.Num("write")) }

// nameIO names the process that causes most of the I/O of a disk, if a table shows it. moved is
// what the disk reads and writes.
func (s *study) nameIO(f *diagnose.Finding, moved float64) {
	top := s.topIO()
	if top == nil {
		caveat(f, "The table does not show the process: pidstat -d 1 or culprit disk does.")
		return
	}
	command := phrase.Clean(top.Word("command"))
	evidence(f, top, ioOf(top), "B/s", "%s reads and writes most of all processes, %s", command,
		phrase.BytesRate(ioOf(top)))
	if moved > 0 && ioOf(top) >= threshold.DiskPaused*moved && ioOf(top) <= 1.3*moved {
		f.Culprit = diagnose.Culprit{Kind: "process", Name: command,
			PID: int(zero(top.Num("pid")))}
		if class := top.Word("class"); class == "idle" {
			caveat(f, "Its I/O class is idle already: ionice changes nothing.")
		}
	}
}

// rankIO makes the wait of idle CPUs for I/O a consequence of a saturated disk.
func (s *study) rankIO() {
	disk := s.find1any("disk-saturated")
	if disk == nil {
		return
	}
	list := s.report.Findings
	for i := range list {
		if f := &list[i]; f.Rule == "io-stalled" && f.Severity.Weight() >= diagnose.Low.Weight() {
			f.Severity = diagnose.Low
			caveat(f, "It is the consequence of "+disk.ID+".")
		}
	}
}

// Thresholds of rows of processes.
const (
	manySwitches = 15000 // voluntary switches per second, as of switch-storm
	manyFaults   = 100   // major faults per second, as of memory-pressure
	longWait     = 50    // percent of the time that a process waits for I/O (iotop)
	nfsSlow      = 100   // ms per call of NFS
)

// processIO judges processes by their switches, faults and waits for I/O.
func (s *study) processIO() {
	for _, t := range s.of(Processes) {
		for _, r := range t.measured() {
			command := phrase.Clean(r.Word("command"))
			culprit := diagnose.Culprit{Kind: "process", Name: command,
				PID: int(zero(r.Num("pid")))}
			once := func(rule string) bool { return s.find1(rule+"/"+command) == nil }
			if v := r.Num("voluntary"); v >= manySwitches && once("switch-storm") {
				f := s.find("switch-storm", command, diagnose.Low, 0.7, culprit, fmt.Sprintf(
					"%s goes to sleep %s times per second.", command, phrase.Count(v)))
				evidence(f, r, v, "event/s", "%s voluntary switches per second", phrase.Count(v))
				f.Verify = "pidstat -w -t 1 3"
			}
			if v := r.Num("major"); v >= manyFaults && once("major-faults") {
				f := s.find("major-faults", command, diagnose.Medium, 0.7, culprit, fmt.Sprintf(
					"%s waits for pages from disk: %s major faults per second.", command,
					phrase.Count(v)))
				evidence(f, r, v, "event/s", "%s major faults per second", phrase.Count(v))
				caveat(f, "Programs that start, and files that are mapped and new, fault as well.")
				f.Verify = "pidstat -r 1 3; vmstat 1 3"
			}
			if v := r.Num("iowait"); v >= longWait && t.Tool == "iotop" && once("io-waits") {
				f := s.find("io-waits", command, diagnose.Low, 0.7, culprit, fmt.Sprintf(
					"%s waits for I/O %s of the time.", command, percent(v)))
				evidence(f, r, v/100, "1", "%s reads %s and writes %s", command,
					phrase.BytesRate(zero(r.Num("read"))), phrase.BytesRate(zero(r.Num("write"))))
				f.Verify = "iotop -b -o -n 3"
			}
		}
	}
}

// nfs finds mounts of NFS whose server answers slowly, or on which calls wait before they are sent.
func (s *study) nfs() {
	for _, t := range s.of(NFS) {
		names, by := group(t.measured(), "mount")
		for _, mount := range names {
			var worst *Row
			for _, r := range by[mount] {
				if r.Num("ops") >= 1 && (worst == nil || r.Num("exe") > worst.Num("exe")) {
					worst = r
				}
			}
			if worst == nil || worst.Num("exe") < nfsSlow {
				continue
			}
			server, why := phrase.Clean(worst.Word("server")), "the server answers slowly"
			if worst.Num("rtt") < worst.Num("exe")/2 {
				why = "calls wait on this machine before they are sent"
			}
			call, answer := worst.Num("exe")*1e6, worst.Num("rtt")*1e6 // from ms to ns
			f := s.find("nfs-slow", mount, diagnose.Medium, 0.75, diagnose.Culprit{Kind: "server",
				Name: server}, fmt.Sprintf("A %s on %s takes %s: %s.", worst.Word("way"),
				phrase.Clean(mount), phrase.Duration(call), why))
			evidence(f, worst, call, "ns", "a call takes %s; the server answers after %s; %s "+
				"calls per second; %s calls were sent again", phrase.Duration(call),
				phrase.Duration(answer), phrase.Digits(worst.Num("ops")),
				phrase.Count(zero(worst.Num("retrans"))))
			f.Verify = "nfsiostat 1 3"
		}
		s.shown["disk"] = true
	}
}
