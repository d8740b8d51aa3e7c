package demand

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const ms = time.Millisecond

// A player is a thread that works and sleeps in turn.
type player struct {
	work, pause time.Duration // pause 0: it never sleeps
	timed       bool          // the work comes at fixed times
	ball        *os.File      // it sleeps until a byte comes from it, and hands it on to next
	next        *os.File
}

func (p player) play(cpu int, stop *atomic.Bool, started chan<- int) error {
	runtime.LockOSThread() // the thread ends with this function
	var set unix.CPUSet
	set.Set(cpu)
	err := unix.SchedSetaffinity(0, &set)
	if e := unix.Setpriority(unix.PRIO_PROCESS, 0, -15); e != nil && err == nil {
		err = e
	}
	started <- unix.Gettid()
	at := time.Now()
	for err == nil && !stop.Load() {
		for from := threadTime(); threadTime()-from < max(p.work, ms) && !stop.Load(); {
		}
		pause := p.pause
		switch {
		case p.next != nil:
			var one [1]byte
			if _, err = p.next.Write(one[:]); err == nil {
				_, err = p.ball.Read(one[:])
			}
		case p.timed:
			at = at.Add(p.work + p.pause)
			pause = time.Until(at)
		}
		if pause > 0 {
			ts := unix.NsecToTimespec(int64(pause))
			unix.Nanosleep(&ts, nil)
		}
	}
	return err
}

func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// game is threads on one CPU.
type game struct {
	t   *testing.T
	cpu int
	all sync.WaitGroup
}

func (g *game) start(players []player, stop *atomic.Bool) (tids []int) {
	started := make(chan int)
	for _, p := range players {
		g.all.Add(1)
		go func() {
			defer g.all.Done()
			if err := p.play(g.cpu, stop, started); err != nil && !stop.Load() {
				g.t.Error(err)
			}
		}()
		tids = append(tids, <-started)
	}
	return tids
}

// use returns for how much of a second and a half each thread ran and waited, and for how much of
// it others used the CPU.
func (g *game) use(tids []int) (threads [][2]float64, others float64) {
	read := func() (all [][2]float64) {
		for _, tid := range tids {
			var v [2]float64
			b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/schedstat", tid))
			if err == nil {
				_, err = fmt.Sscan(string(b), &v[0], &v[1])
			}
			if err != nil {
				g.t.Fatal(err)
			}
			all = append(all, v)
		}
		return all
	}
	before, idle, start := read(), idleTime(g.t, g.cpu), time.Now()
	time.Sleep(1500 * ms)
	span := float64(time.Since(start))
	others = 1 - (idleTime(g.t, g.cpu)-idle)/span
	for i, v := range read() {
		threads = append(threads,
			[2]float64{(v[0] - before[i][0]) / span, (v[1] - before[i][1]) / span})
		others -= threads[i][0]
	}
	return threads, others
}

// idleTime returns the idle time of a CPU since the start of the machine, in nanoseconds.
func idleTime(t *testing.T, cpu int) float64 {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) > 5 && f[0] == fmt.Sprint("cpu", cpu) {
			var idle, iowait float64
			fmt.Sscan(f[4], &idle)
			fmt.Sscan(f[5], &iowait)
			return (idle + iowait) * 1e7
		}
	}
	t.Fatalf("no CPU %d in /proc/stat", cpu)
	return 0
}

// TestLive lets threads compete for a CPU, ends some of them, and compares what the others then use
// with what was estimated before.
func TestLive(t *testing.T) {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, -15); err != nil {
		t.Skip("needs: cap:SYS_NICE")
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 0); err != nil {
		t.Fatal(err)
	}
	// The runtime must not park a thread that works.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
	hog, half := player{}, player{work: 10 * ms, pause: 10 * ms}
	for _, tt := range []struct {
		name          string
		leave, others []player
	}{
		{"two busy leave one that sleeps half of the time", []player{hog, hog}, []player{half}},
		{"four leave two that sleep", []player{hog, hog, hog, hog}, []player{half, half}},
		{"three leave a busy one", []player{hog, hog, hog}, []player{hog}},
		{"two leave work at fixed times", []player{hog, hog},
			[]player{{work: 3 * ms, pause: 7 * ms, timed: true}}},
		{"one leaves two that wait for each other", []player{hog}, pair(t)},
	} {
		t.Run(tt.name, func(t *testing.T) { compete(t, tt.leave, tt.others) })
	}
}

// pair returns two threads of which one sleeps while the other works.
func pair(t *testing.T) []player {
	var ends [2][2]*os.File
	for i := range ends {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close(); w.Close() })
		ends[i] = [2]*os.File{r, w}
	}
	return []player{{work: 5 * ms, ball: ends[0][0], next: ends[1][1]},
		{work: 5 * ms, ball: ends[1][0], next: ends[0][1]}}
}

const (
	tolerance = 0.05 // of a CPU, by which the range may be missed
	disturbed = 0.05 // of a CPU, that others may use while all compete: more can disturb later too
)

// occupied reports that a case was disturbed: then so are the others.
var occupied bool

func compete(t *testing.T, leave, others []player) {
	for try := 0; try < 2 && !occupied; try++ {
		g := &game{t: t, cpu: try % runtime.NumCPU()}
		var over, left atomic.Bool
		tids := g.start(others, &over)
		more := g.start(leave, &left)
		time.Sleep(200 * ms)
		with, outside := g.use(append(more, tids...))
		left.Store(true)
		time.Sleep(200 * ms)
		without, _ := g.use(tids)
		over.Store(true)
		for _, p := range others {
			if p.next != nil {
				p.next.Write([]byte{0}) // who waits for it
			}
		}
		g.all.Wait()
		if outside > disturbed {
			t.Logf("others used %.2f of the CPU", outside)
			continue
		}
		var all Range
		var tasks []float64
		measured := 0.0
		for i, v := range with[len(more):] {
			r := OfThread(v[0], v[1])
			all.Least, all.Most = all.Least+r.Least, all.Most+r.Most
			tasks = append(tasks, r.Likely)
			measured += without[i][0]
		}
		all.Likely = Expected(1, 0, tasks)
		all.Least, all.Most = math.Min(1, all.Least), math.Min(1, all.Most) // of one CPU
		t.Logf("with %.3f: least %.3f, likely %.3f, most %.3f; measured %.3f", with[len(more):],
			all.Least, all.Likely, all.Most, measured)
		if measured < all.Least-tolerance || measured > all.Most+tolerance {
			t.Errorf("%.3f of the CPU is used, estimated %+v", measured, all)
		}
		return
	}
	occupied = true
	t.Skip("needs: quiet machine")
}
