package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// opened skips the test where this user or this kernel may not have what was opened.
func opened(tb testing.TB, err error, feature string) {
	tb.Helper()
	switch {
	case errors.Is(err, measure.ErrDenied):
		tb.Skip("needs: cap:CAP_BPF:", err)
	case errors.Is(err, measure.ErrUnsupported):
		tb.Skipf("needs: kernel feature %s: %v", feature, err)
	case err != nil:
		tb.Fatal(err)
	}
}

func openHandlers(tb testing.TB, lines int) *Handlers {
	tb.Helper()
	h, err := OpenHandlers(kernel.Root{}, lines)
	opened(tb, err, "raw tracepoints at handlers of interrupts")
	tb.Cleanup(h.Close)
	return h
}

// softirqs returns how often the softirq ran on the CPU, from /proc/softirqs.
func softirqsRun(t *testing.T, name string, cpu int) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/softirqs")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) > cpu+1 && string(f[0]) == name+":" {
			if n, err = strconv.Atoi(string(f[cpu+1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// Datagrams over loopback are received in softirqs that run within the system call that sends:
// their time is of this thread, and less than all that it took.
func TestHandlersOfSoftirqs(t *testing.T) {
	h := openHandlers(t, 64)
	to, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	c, err := net.Dial("udp4", to.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	devices, err := h.OpenDevices(NewTypes(kernel.Root{}))
	if err != nil {
		t.Skip("needs: kernel feature BTF:", err)
	}
	defer devices.Close()
	cpu, unpin := pinned(t)
	defer unpin()
	h.Read(func(HandlerTime) {})
	if err := devices.Each(func(DeviceTime) {}); err != nil {
		t.Fatal(err)
	}
	const datagrams, netRX = 20000, 3
	ran, before, began := softirqsRun(t, "NET_RX", cpu), kernel.ThreadTime(), time.Now()
	for range datagrams {
		if _, err := c.Write([]byte("datagram")); err != nil {
			t.Fatal(err)
		}
	}
	spent, wall := kernel.ThreadTime()-before, time.Since(began)
	ran = softirqsRun(t, "NET_RX", cpu) - ran
	loopback, all, taken := time.Duration(0), time.Duration(0), time.Duration(0)
	if err := devices.Each(func(d DeviceTime) {
		if d.CPU == cpu && d.Device == "lo" {
			loopback += d.Time
		}
	}); err != nil {
		t.Fatal(err)
	}
	h.Read(func(k HandlerTime) {
		if k.CPU != cpu {
			return
		}
		all += k.Time
		if k.What == HandlerSoftirq && k.Number == netRX {
			taken = k.Time
		}
	})
	if ran < datagrams {
		t.Skip("needs: kernel feature softirqs that run at once:", ran, "ran")
	}
	// others may have used the CPU meanwhile
	if taken < time.Duration(ran)*100*time.Nanosecond || taken > wall {
		t.Errorf("%v in %d softirqs of a thread that took %v", taken, ran, time.Duration(spent))
	}
	if loopback < taken/20 || loopback > taken { // others may have packets on this CPU too
		t.Errorf("%v of %v are of loopback", loopback, taken)
	}
	if all > wall+wall/10 {
		t.Errorf("all handlers of the CPU took %v of %v", all, wall)
	}
	if cost, known := h.Cost(); known && (cost <= 0 || cost > wall) {
		t.Errorf("the programs took %v of %v", cost, wall)
	}
}

// pinned keeps the test on the CPU that it is on.
func pinned(t *testing.T) (cpu int, unpin func()) {
	t.Helper()
	runtime.LockOSThread()
	var was, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		t.Fatal(err)
	}
	for cpu = 0; !was.IsSet(cpu); cpu++ {
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	return cpu, func() {
		if err := unix.SchedSetaffinity(0, &was); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	}
}

// A timer that ends each millisecond is an interrupt of the CPU that the thread sleeps on.
func TestHandlersOfTimers(t *testing.T) {
	h := openHandlers(t, 64)
	if !h.Has(LOC) {
		t.Skip("needs: kernel feature tracepoints irq_vectors:*")
	}
	cpu, unpin := pinned(t)
	defer unpin()
	h.Read(func(HandlerTime) {})
	began := time.Now()
	for range 100 {
		//nolint:errcheck // a shorter sleep will do
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	wall, taken := time.Since(began), time.Duration(0)
	h.Read(func(k HandlerTime) {
		if k.CPU == cpu && k.What == HandlerOther && HandlerKind(k.Number) == LOC {
			taken = k.Time
		}
	})
	if taken < 100*100*time.Nanosecond || taken > wall/2 {
		t.Errorf("handlers of the timer took %v of %v, in which it ended 100 times", taken, wall)
	}
}

// Interrupts with later numbers are counted, those above the limit as lost.
func TestHandlersOfUnknownLines(t *testing.T) {
	h := openHandlers(t, 0)
	h.Read(func(k HandlerTime) {
		if k.What == HandlerLine && k.Number >= moreLines+1 {
			t.Errorf("line %d", k.Number)
		}
	})
	if h.Lost() < 0 {
		t.Error(h.Lost())
	}
	h.Close()
	h.Close()
	if _, err := OpenHandlers(kernel.Root{Proc: t.TempDir()}, 1); !errors.Is(err,
		measure.ErrUnsupported) {
		t.Error(fmt.Errorf("captured files: %w", err))
	}
}

func BenchmarkHandlersRead(b *testing.B) {
	h := openHandlers(b, 64)
	for b.Loop() {
		h.Read(func(HandlerTime) {})
	}
}

// Sums never decrease, not even where interrupts come at the moment at which a softirq ends.
func TestSumsOfHandlersNeverDecrease(t *testing.T) {
	h := openHandlers(t, 64)
	cpu, unpin := pinned(t)
	defer unpin()
	// The kernel's timer of CPU time interrupts every 20 us.
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: 20_000,
		Size: unix.PERF_ATTR_SIZE_VER5,
	}
	event, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	opened(t, Classify(kernel.Root{}, err), "perf events")
	defer unix.Close(event)
	to, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	c, err := net.Dial("udp4", to.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	stop, decreased := make(chan struct{}), make(chan uint64)
	go func() { // on another CPU, if there is one
		var worst uint64
		defer func() { decreased <- worst }()
		at := cpu*h.slots + slotSoft + 3 // NET_RX
		for last := h.sum(at); ; {
			v := h.sum(at)
			if v < last {
				worst = max(worst, last-v)
			}
			last = v
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		for range 100 {
			c.Write([]byte{1}) //nolint:errcheck // a full receiver drops it
		}
	}
	close(stop)
	if worst := <-decreased; worst > 0 {
		t.Errorf("the sum of NET_RX decreased by %d ns", worst)
	}
}
