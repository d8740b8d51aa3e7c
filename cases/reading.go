package cases

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// The lab reads the kernel's counters by itself, a source beside the program under test.

// moved counts the payload bits of loads.
func moved(d *Load) func() (float64, time.Time) {
	return func() (float64, time.Time) { c := d.Count(); return float64(c.Bytes) * 8, c.At }
}

// served counts the operations of a load.
func served(d *Load) func() (float64, time.Time) {
	return func() (float64, time.Time) { c := d.Count(); return float64(c.Ops), c.At }
}

// Device reads a counter of an interface from the host's /proc/net/dev: rx_bytes, rx_packets,
// tx_bytes, tx_packets, rx_dropped or tx_dropped. NaN when there is no such interface.
func (h *Host) Device(dev, counter string) float64 {
	column := map[string]int{
		"rx_bytes":   0,
		"rx_packets": 1,
		"rx_dropped": 3,
		"tx_bytes":   8,
		"tx_packets": 9,
		"tx_dropped": 11,
	}[counter]
	for _, line := range strings.Split(h.proc("net/dev"), "\n") {
		name, rest, ok := strings.Cut(line, ":")
		if f := strings.Fields(rest); ok && strings.TrimSpace(name) == dev && len(f) > column {
			return number(f[column])
		}
	}
	return math.NaN()
}

func (h *Host) counts(dev, counter string) func() (float64, time.Time) {
	return func() (float64, time.Time) { return h.Device(dev, counter), time.Now() }
}

// Protocol reads a counter of /proc/net/snmp or netstat, such as "Tcp", "RetransSegs". NaN when
// there is no such.
func (h *Host) Protocol(group, counter string) float64 {
	s := bufio.NewScanner(strings.NewReader(h.proc("net/snmp") + h.proc("net/netstat")))
	s.Buffer(nil, 1<<20)
	var names []string // of the line before: names and values stand on lines in pairs
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) == 0 || f[0] != group+":" {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i, n := range names {
			if n == counter && i > 0 && i < len(f) {
				return number(f[i])
			}
		}
		names = nil
	}
	return math.NaN()
}

func (h *Host) protocol(group, counter string) func() (float64, time.Time) {
	return func() (float64, time.Time) { return h.Protocol(group, counter), time.Now() }
}

// sockets reads how many TCP sockets the host has in use, as /proc/net/sockstat says.
func (h *Host) sockets() (float64, time.Time) {
	for _, line := range strings.Split(h.proc("net/sockstat"), "\n") {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "TCP:" && f[1] == "inuse" {
			return number(f[2]), time.Now()
		}
	}
	return math.NaN(), time.Now()
}

func (h *Host) proc(file string) string {
	var b []byte
	if err := inside(h.NS, func() (err error) {
		b, err = os.ReadFile("/proc/thread-self/" + file)
		return err
	}); err != nil {
		return ""
	}
	return string(b)
}

// keyed reads the value after a key in a file of "key value" lines, such as cpu.stat or
// /proc/vmstat.
func keyed(file, key string) func() (float64, time.Time) {
	return func() (float64, time.Time) {
		b, _ := os.ReadFile(file)
		for _, line := range bytes.Split(b, []byte("\n")) {
			if f := strings.Fields(string(line)); len(f) >= 2 &&
				f[0] == key { // /proc/meminfo has a unit behind
				return number(f[1]), time.Now()
			}
		}
		return math.NaN(), time.Now()
	}
}

// diskBusy counts the seconds that a disk had something under way (field 13 of /proc/diskstats, in
// ms).
func diskBusy(disk string) func() (float64, time.Time) {
	return func() (float64, time.Time) {
		b, _ := os.ReadFile("/proc/diskstats")
		for _, line := range bytes.Split(b, []byte("\n")) {
			if f := strings.Fields(string(line)); len(f) > 12 && f[2] == disk {
				return number(f[12]) / 1000, time.Now()
			}
		}
		return math.NaN(), time.Now()
	}
}

// used counts the CPU seconds of a process, from /proc/PID/stat in ticks of 10 ms.
func used(pid int) func() (float64, time.Time) {
	return func() (float64, time.Time) {
		usr, sys, ok := usedCPU(pid)
		if !ok {
			return math.NaN(), time.Now()
		}
		return usr + sys, time.Now()
	}
}

// usedCPU returns the CPU seconds of a process in user mode and in the kernel.
func usedCPU(pid int) (usr, sys float64, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	_, rest, _ := strings.Cut(string(b), ") ") // names of the lab hold no parenthesis
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, 0, false
	}
	return number(
			f[11],
		) / 100, number(
			f[12],
		) / 100, true // USER_HZ is 100 on every Linux that Go runs on
}

// machineBusy counts the seconds that all CPUs together spent in user mode and in the kernel,
// without interrupts.
func machineBusy() float64 {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	if len(f) < 4 {
		return math.NaN()
	}
	return (number(f[1]) + number(f[2]) + number(f[3])) / 100
}

// machineIdle counts the seconds that all CPUs together had nothing to do, or waited for disks.
func machineIdle() float64 {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	if len(f) < 6 {
		return math.NaN()
	}
	return (number(f[4]) + number(f[5])) / 100
}

// cpuOf counts the CPU seconds of the living processes of a run, of all runs for "", by process.
func cpuOf(run string) map[int]float64 {
	each := map[int]float64{}
	for _, pid := range processesOf(run) {
		if v, _ := used(pid)(); v == v { // not one that ended just now
			each[pid] = v
		}
	}
	return each
}

// since returns the CPU seconds that processes which are there at both times, or began between
// them, used between them.
func since(before, after map[int]float64) (total float64) {
	for pid, v := range after {
		total += v - before[pid]
	}
	return total
}

func number(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}
