package process

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/heapbound"
	"culprit/kernel/netlink"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// TestFailuresOfThisMachine: processes that fail within a millisecond are counted with their end,
// their parent and their lifetime; those that succeed are not.
func TestFailuresOfThisMachine(t *testing.T) {
	out := collect.NewOut(Failures{}.Stats(), collect.NewDictionary(), false)
	r, err := Failures{}.Open(&collect.Env{}, collecttest.WantAll(Failures{}))
	if errors.Is(err, measure.ErrDenied) || errors.Is(err, measure.ErrUnsupported) {
		t.Skip("needs: cap:CAP_NET_ADMIN in the first PID namespace: " + err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	read := func(first bool) map[string]float64 {
		out.Start(first, time.Now())
		if err := r.Read(out); err != nil {
			t.Fatal(err)
		}
		return collecttest.RowsOf(t, out)
	}
	read(true)
	const script = `for i in 1 2 3; do sh -c 'exit 37'; done
for i in 1 2; do sh -c 'kill -SEGV $$'; done; sh -c 'sleep 0.3; kill -KILL $$'
for i in 1 2 3 4 5; do sh -c 'exit 0'; done; true`
	cmd := exec.Command("sh", "-c", script)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	rows := read(false)
	sum := func(stat, end string) (n float64) {
		for k, v := range rows {
			f := strings.Split(k, "|")
			if f[0] == stat && f[2] == fmt.Sprint(cmd.Process.Pid) && f[4] == end {
				n += v
			}
		}
		return n
	}
	for end, want := range map[string]float64{"code 37": 3, "SIGSEGV": 2, "SIGKILL": 1, "code 0": 0} {
		if n := sum("process.failures", end); n != want {
			t.Errorf("%s: %v times, want %v: %v", end, n, want, rows)
		}
	}
	if v := sum("process.failures.time", "SIGKILL"); math.Abs(v-0.3e9) > 0.2e9 {
		t.Errorf("lived for %v ns, want 0.3 s", v)
	}
	if v := sum("process.failures.time", "code 37"); v <= 0 || v > 1e9 {
		t.Errorf("three processes lived for %v ns", v)
	}
}

// exitScript is an exitListener with the messages of a test.
type exitScript struct {
	mu       sync.Mutex
	messages []any // []byte, or an error
	turned   []bool
	more     chan struct{}
	closed   chan struct{}
}

func newExitScript() *exitScript {
	return &exitScript{more: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (s *exitScript) Receive(b []byte, wait bool) (int, error) {
	for {
		s.mu.Lock()
		if len(s.messages) > 0 {
			one := s.messages[0]
			s.messages = s.messages[1:]
			s.mu.Unlock()
			if err, ok := one.(error); ok {
				return 0, err
			}
			return copy(b, one.([]byte)), nil
		}
		s.mu.Unlock()
		if !wait {
			return 0, nil
		}
		select {
		case <-s.more:
		case <-s.closed:
			return 0, os.ErrClosed
		}
	}
}

func (s *exitScript) send(messages ...any) {
	s.mu.Lock()
	s.messages = append(s.messages, messages...)
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	for { // until the goroutine has taken them
		s.mu.Lock()
		n := len(s.messages)
		s.mu.Unlock()
		if n == 0 {
			time.Sleep(5 * time.Millisecond)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (s *exitScript) Turn(on bool) error { s.turned = append(s.turned, on); return nil }
func (s *exitScript) Close() error       { close(s.closed); return nil }

// exitMessage returns the message about an ended process as the kernel sends it.
func exitMessage(name string, pid, parent int32, code uint32, lived uint64) []byte {
	var q netlink.Request
	q.BeginGeneric(netlink.Family{ID: 30}, 2, 0)
	at := q.Nest(taskstatsAggrPID)
	q.AttrUint32(taskstatsPID, uint32(pid))
	s := make([]byte, tsLeast)
	put := func(at int, v uint32) {
		for i := range 4 {
			s[at+i] = byte(v >> (8 * i))
		}
	}
	put(tsExitCode, code)
	copy(s[tsComm:], name)
	put(tsPID, uint32(pid))
	put(tsParent, uint32(parent))
	put(tsElapsed, uint32(lived))
	put(tsElapsed+4, uint32(lived>>32))
	q.Attr(taskstatsTypeStats, s)
	q.EndNest(at)
	b, err := q.Message(0)
	if err != nil {
		panic(err)
	}
	return b
}

// scriptedFailures opens a machine whose kernel sends the messages of a script.
func scriptedFailures(t *testing.T, s *exitScript, files map[string]string) (*collecttest.Machine,
	*time.Time) {
	t.Helper()
	now := time.Unix(1000, 0)
	m := collecttest.EmptyMachine(t)
	m.Put(files)
	m.Open(Failures{listen: func(*collect.Env) (exitListener, error) { return s, nil },
		now: func() time.Time { return now }})
	m.Read(true)
	return m, &now
}

// TestFailures: columns, the control group of the process before that of its parent, and losses.
func TestFailures(t *testing.T) {
	s := newExitScript()
	m, now := scriptedFailures(t, s, map[string]string{"proc/stat": "processes 100\n",
		"proc/7/comm": "super visor\n", "proc/7/cgroup": "0::/a.slice/boss.service\n",
		"proc/41/cgroup": "0::/a.slice/web.service\n"})
	s.send(exitMessage("web", 41, 7, 11|0x80, 3000), exitMessage("web", 42, 7, 11, 4000),
		exitMessage("web", 43, 7, 5<<8, 7), exitMessage("a\x1b[m\n", 44, 8, 40, 9),
		exitMessage("fine", 45, 7, 0, 1), []byte("short"), errExitsLost)
	*now = now.Add(time.Second)
	m.Start(false)
	if err := m.Reading.Read(m.Out); err != nil {
		t.Fatal(err)
	}
	rows := collecttest.RowsOf(t, m.Out)
	collecttest.Expect(t, rows, "process.failures|", map[string]float64{
		"process.failures|web|7|super visor|SIGSEGV|/a.slice/web.service":  1,
		"process.failures|web|7|super visor|SIGSEGV|/a.slice/boss.service": 1,
		"process.failures|web|7|super visor|code 5|/a.slice/boss.service":  1,
		"process.failures|a?[m |8||signal 40|":                             1})
	collecttest.Expect(t, rows, "process.failures.time|", map[string]float64{
		"process.failures.time|web|7|super visor|SIGSEGV|/a.slice/web.service":  3e6,
		"process.failures.time|web|7|super visor|SIGSEGV|/a.slice/boss.service": 4e6,
		"process.failures.time|web|7|super visor|code 5|/a.slice/boss.service":  7e3,
		"process.failures.time|a?[m |8||signal 40|":                             9e3})
	if loss := m.Out.Table(failuresID).Batch().Loss; len(loss) != 1 {
		t.Errorf("losses %v", loss)
	}
	if rows = m.Read(false); len(rows) != 0 {
		t.Errorf("the next interval has %v", rows)
	}
}

// TestManyFailures: names that programs choose do not use unbounded memory, and each is counted.
func TestManyFailures(t *testing.T) {
	s := newExitScript()
	m, _ := scriptedFailures(t, s, map[string]string{"proc/stat": "processes 100\n"})
	const all = 3 * mostKinds
	var messages []any
	for i := range all {
		messages = append(messages, exitMessage(fmt.Sprintf("p%d", i), 41, 7, 1<<8, 1))
	}
	s.send(messages...)
	kinds, n := 0, 0.0
	for k, v := range m.Read(false) {
		if strings.HasPrefix(k, "process.failures|") {
			kinds++
			n += v
		}
	}
	if kinds != mostKinds+1 || n != all {
		t.Errorf("%d kinds of %v failures, want %d of %d", kinds, n, mostKinds+1, all)
	}
}

// TestFailuresAreTurnedOff: while many processes start the kernel makes no messages.
func TestFailuresAreTurnedOff(t *testing.T) {
	s := newExitScript()
	m, now := scriptedFailures(t, s, map[string]string{"proc/stat": "processes 100\n"})
	step := func(seconds int, starts string) string {
		*now = now.Add(time.Duration(seconds) * time.Second)
		m.Put(map[string]string{"proc/stat": "processes " + starts + "\n"})
		m.Read(false)
		return m.Notes()
	}
	step(1, "2100") // 2000 per second
	if len(s.turned) != 0 {
		t.Fatal("turned off at the limit")
	}
	step(1, "4101")
	if !slices.Equal(s.turned, []bool{false}) {
		t.Fatalf("turned %v above the limit", s.turned)
	}
	if notes := step(29, "4102"); !strings.Contains(notes, "turned off for 30 s") {
		t.Errorf("notes %q", notes)
	}
	step(1, "4103")
	if !slices.Equal(s.turned, []bool{false, true}) {
		t.Errorf("turned %v after 30 s", s.turned)
	}
	if notes := step(1, "4104"); notes != "" {
		t.Errorf("notes %q", notes)
	}
}

func FuzzExit(f *testing.F) {
	f.Add(exitMessage("web", 41, 7, 11, 3000))
	f.Add(exitMessage("web", 41, 7, 1<<8, 3000)[:100])
	heapbound.Fuzz(f, func(t *testing.T, data []byte) {
		e, ok := parseExit(data)
		if ok && (len(e.process) > 2*tsCommSize || strings.ContainsAny(e.process, "\x1b\n")) {
			t.Errorf("name %q", e.process)
		}
		if end := e.end(); !strings.HasPrefix(end, "code ") && !strings.HasPrefix(end, "signal ") &&
			unix.SignalNum(end) == 0 {
			t.Errorf("end %q", end)
		}
	})
}

// BenchmarkExits shows what the messages cost tasks that end: compare off with on.
func BenchmarkExits(b *testing.B) {
	run := func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("off", run)
	b.Run("on", func(b *testing.B) {
		r, err := Failures{}.Open(&collect.Env{}, collecttest.WantAll(Failures{}))
		if err != nil {
			b.Skip(err)
		}
		defer r.Close()
		run(b)
	})
}
