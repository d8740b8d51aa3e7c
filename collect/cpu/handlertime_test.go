package cpu

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/kernel"
)

// timesTick opens irq.time and softirq.time of this machine. It skips the test if they are not
// available.
func timesTick(t *testing.T, more ...string) *collecttest.Ticker {
	t.Helper()
	k := collecttest.OpenTicker(
		t,
		Interrupts{},
		&collect.Env{},
		append(more, "irq.time", "softirq.time")...)
	k.Rows()
	r := k.Reading.(*interruptsReading)
	if r.times.h == nil {
		if !strings.Contains(r.times.why, "denied") && !strings.Contains(r.times.why, "supported") {
			t.Error(r.times.why)
		}
		t.Skip("needs: cap:CAP_BPF:", r.times.why)
	}
	if r.times.coming != nil { // nil: the reading above has received it
		r.times.devices, r.times.coming = <-r.times.coming, nil
	}
	if r.times.devices == nil {
		t.Skip("needs: kernel feature BTF")
	}
	return k
}

// Packets that a veth's driver polls belong to that device. Datagrams over loopback belong to none.
func TestSoftirqTimeByDevice(t *testing.T) {
	s := collecttest.NewScene(t, "a", "b")
	s.Cable()
	s.Run("ip netns exec @a ethtool -K va tso off >/dev/null && ip netns exec @b ethtool -K vb " +
		"gro on >/dev/null")
	k := timesTick(t)
	k.Rows()
	began := time.Now()
	s.Send(3000, 1000)
	device, all := 0.0, 0.0
	for row, v := range k.Rows() {
		name, keys, _ := strings.Cut(row, " ")
		switch words := strings.Split(keys, ","); {
		case v < 0 || v != v:
			t.Errorf("%s: %v", row, v)
		case name == "softirq.time" && words[1] == "NET_RX":
			all += v
			if words[2] == s.Prefix+"b/vb" {
				device += v
			}
		}
	}
	wall := float64(time.Since(began))
	if device < 3000*50 || device > all ||
		all > 2*wall*float64(len(k.Reading.(*interruptsReading).cpus)) {
		t.Errorf("NET_RX took %v ns, of it vb %v, in %v", all, device, wall)
	}
}

// Times have the labels of the counts and are at most as long as the interval.
func TestInterruptTimes(t *testing.T) {
	k := timesTick(t)
	k.Rows()
	began := time.Now()
	var rows map[string]float64
	collecttest.UntilRows(t, k, "the local timer", func(now map[string]float64) bool {
		rows = now
		for row := range now {
			if strings.HasPrefix(row, "irq.time LOC,") {
				return true
			}
		}
		began = time.Now()
		return false
	})
	for row, v := range rows {
		if v <= 0 || v > float64(time.Since(began)) {
			t.Errorf("%s: %v ns", row, v)
		}
		if strings.HasPrefix(row, "irq.time LOC,") && !strings.Contains(row, "Local timer "+
			"interrupts") {
			t.Errorf("%s has not the text that its count has", row)
		}
	}
	if _, known := k.Reading.(*interruptsReading).times.h.Cost(); known {
		collecttest.UntilRows(
			t, k, "of what the programs took",
			func(map[string]float64) bool { return k.Out.Table("irq.time").Cost() > 0 },
		)
	}
}

// The time before the first reading is unknown, not 0. So is that of captured files.
func TestInterruptTimesUnknown(t *testing.T) {
	proc := t.TempDir()
	if err := os.WriteFile(filepath.Join(proc, "interrupts"), []byte("           CPU0\n  1:    "+
		"     10   IO-APIC   1-edge      i8042\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, env := range []*collect.Env{
		{SinceBoot: true}, {Root: kernel.Root{Proc: proc, Sys: t.TempDir()}},
	} {
		k := collecttest.OpenTicker(t, Interrupts{}, env, "irq.time", "softirq.time")
		for _, b := range k.Read() {
			if len(b.Values) > 0 || len(b.Notes) == 0 ||
				!strings.HasPrefix(b.Notes[0], "the time of interrupts") ||
				b.Over.Start != b.Over.End {
				t.Errorf("%s: %v, notes %q", b.Stat, b.Values, b.Notes)
			}
		}
	}
}

// TestNamespaceWithoutName checks the name of a network namespace that no process or mount has. The
// list of names is read again after a while only.
func TestNamespaceWithoutName(t *testing.T) {
	h := handlerTimes{root: kernel.Root{Proc: t.TempDir(), Sys: t.TempDir()}}
	if got := h.nameOf(4026531999); got != "net:4026531999" {
		t.Errorf("the name is %s", got)
	}
	if h.names[7] = "blue"; h.nameOf(7) != "blue" {
		t.Errorf("a known name is %s", h.nameOf(7))
	}
	if h.nameOf(8); h.names[7] != "blue" {
		t.Error("the names were listed again at once")
	}
	*h.rest(2) += 5
	if !slices.Equal(h.softirq, []float64{0, 0, 5}) {
		t.Errorf("the times of three CPUs are %v", h.softirq)
	}
}

func TestCostBucket(t *testing.T) {
	for share, want := range map[float64]string{
		0:     "",
		0.01:  "",
		0.011: "1",
		0.049: "2",
		0.21:  "20",
		3:     "50",
	} {
		if got := costBucket(share); got != want {
			t.Errorf("%v: more than %q %%, want %q", share, got, want)
		}
	}
}

// A query for the cost gets it at each reading, and then no note. It never decreases, even when
// devices are no longer measured.
func TestCostOfTimes(t *testing.T) {
	k := timesTick(t, "irq.time.cost")
	r := k.Reading.(*interruptsReading)
	if _, known := r.times.h.Cost(); !known {
		t.Skip("needs: cap:CAP_SYS_ADMIN")
	}
	s := collecttest.NewScene(t, "a", "b")
	s.Cable()
	k.Rows()
	before, _ := r.times.h.Cost()
	before += r.times.devices.Cost()
	began := time.Now()
	s.Send(3000, 1000)
	cost := k.Rows()["irq.time.cost"]
	after, _ := r.times.h.Cost()
	after += r.times.devices.Cost()
	// 3,000 packets take the programs at least a microsecond, and at most the time that passed.
	if cost < 3000*10 || cost > float64(after-before)+float64(time.Since(began)) {
		t.Errorf("%v ns, of programs that took %v more", cost, after-before)
	}
	r.times.cost -= time.Hour // pretends that the programs took it since
	if cost := k.Rows()["irq.time.cost"]; cost < float64(time.Hour) {
		t.Errorf("%v ns, and an hour should be in it", cost)
	}
	if r.times.devices != nil || r.times.exceededShare == "" ||
		slices.ContainsFunc(
			k.Notes,
			func(n string) bool {
				return strings.Contains(n, "to measure the time of interrupts takes")
			},
		) {
		t.Fatalf(
			"devices %v, more than %q %%, notes %q", r.times.devices, r.times.exceededShare,
			k.Notes,
		)
	}
	for range 3 {
		if cost := k.Rows()["irq.time.cost"]; cost < 0 || cost > float64(time.Minute) {
			t.Errorf("then %v ns", cost)
		}
	}
}

// The programs of each packet are closed if they take too much. The softirq's time remains
// complete.
func TestDevicesAreBounded(t *testing.T) {
	k := timesTick(t)
	r := k.Reading.(*interruptsReading)
	if _, known := r.times.h.Cost(); !known {
		t.Skip("needs: cap:CAP_SYS_ADMIN")
	}
	k.Rows()
	for range costEvery + 2 {
		r.times.cost = -time.Hour // pretends that the programs took it since
		k.Rows()
	}
	if r.times.devices != nil ||
		!slices.ContainsFunc(
			k.Notes, func(n string) bool { return strings.Contains(n, "is no longer measured") },
		) {
		t.Errorf("devices %v, notes %q", r.times.devices, k.Notes)
	}
	collecttest.UntilRows(t, k, "a softirq", func(rows map[string]float64) bool {
		for row := range rows {
			if strings.HasPrefix(row, "softirq.time ") {
				return true
			}
		}
		return false
	})
}
