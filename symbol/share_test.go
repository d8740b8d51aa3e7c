package symbol

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
)

// A costlyReader answers each request after some CPU time.
type costlyReader struct {
	cpu time.Duration
	err error
}

func (r costlyReader) Read(*Request) (*Answer, error) { return &Answer{CPU: r.cpu}, r.err }

func (r costlyReader) ReadAll(all []*Request) (out []Result) {
	for range all {
		out = append(out, Result{&Answer{CPU: r.cpu}, r.err})
	}
	return out
}

// limitedFiles returns a Files with a clock that the test moves.
func limitedFiles(r Reader) (f *Files, now *time.Time) {
	at := time.Unix(1000, 0)
	f = NewFiles(r)
	f.now = func() time.Time { return at }
	return f, &at
}

// accepted returns how many of n requests for a user's files are answered.
func accepted(t *testing.T, f *Files, user uint32, n int) (answered int) {
	t.Helper()
	for range n {
		switch _, err := f.read(user, &Request{Op: OpHeader}); {
		case err == nil:
			answered++
		case !errors.Is(err, ErrUnavailable):
			t.Fatal(err)
		}
	}
	return answered
}

// TestAllowance: files of one user take as much CPU time as allowed, whatever is asked; those of
// others are read meanwhile, and a note names the user.
func TestAllowance(t *testing.T) {
	f, now := limitedFiles(costlyReader{cpu: 300 * time.Millisecond})
	if n := accepted(t, f, 1000, 100); n != 7 { // 6 are 1.8 s, and 2 s are allowed
		t.Errorf("%d requests at once, want 7", n)
	}
	if n := accepted(t, f, 1001, 3); n != 3 {
		t.Errorf("%d of 3 requests of another user", n)
	}
	notes := strings.Join(f.notes(), "\n")
	if !strings.Contains(notes, "user ID 1000 take more than 100 ms") {
		t.Errorf("notes: %q", notes)
	}
	sum := 0
	for range 100 {
		*now = now.Add(time.Second)
		sum += accepted(t, f, 1000, 10)
	}
	if sum < 32 || sum > 34 { // 100 s allow 10 s
		t.Errorf("%d requests in 100 s, want 33", sum)
	}
	*now = now.Add(waitNoted + time.Second)
	if notes := f.notes(); notes != nil {
		t.Errorf("notes later: %q", notes)
	}
}

// TestTurnsOfUsers: the files of a user with many do not delay those of another one, and each user
// has only the time that is allowed.
func TestTurnsOfUsers(t *testing.T) {
	f, _ := limitedFiles(costlyReader{cpu: 300 * time.Millisecond})
	var all []*query
	for i := range 100 {
		payer := uint32(1000)
		if i >= 98 {
			payer = 1001
		}
		all = append(all, &query{payer: payer, q: &Request{Op: OpHeader}})
	}
	for i, one := range inTurns(all)[:4] {
		if want := uint32(1000 + i%2); one.payer != want {
			t.Errorf("query %d is of user %d, want %d", i, one.payer, want)
		}
	}
	f.readAll(all, &conversation{})
	answered := map[uint32]int{}
	for _, one := range all {
		if one.err == nil {
			answered[one.payer]++
		} else if !errors.Is(one.err, errWaits) {
			t.Fatal(one.err)
		}
	}
	// Those that were sent together are answered, although the first 7 take all of the time.
	if answered[1001] != 2 || answered[1000] != mostTogether-2 {
		t.Errorf("answers by user: %v", answered)
	}
}

// An answeringReader counts answers, also of requests that were late.
type answeringReader struct {
	costlyReader
	answered uint64
}

func (r *answeringReader) Answered() uint64 { return r.answered }

// TestPauseOfSlowReader: a reader that was only slow is asked again as soon as it has answered.
func TestPauseOfSlowReader(t *testing.T) {
	r := &answeringReader{costlyReader: costlyReader{err: ErrUnavailable}}
	f, _ := limitedFiles(r)
	_, _ = f.read(1000, &Request{Op: OpHeader}) // ErrUnavailable
	if !f.pauses() {
		t.Error("no pause after a request without an answer")
	}
	if r.answered++; f.pauses() {
		t.Error("a pause after a late answer")
	}
}

// TestAllowanceOfFailures: a file that ends the reader costs its user more than the time it took.
func TestAllowanceOfFailures(t *testing.T) {
	f, now := limitedFiles(costlyReader{err: ErrFailed})
	asked := 0
	for ; asked < 100; asked++ {
		*now = now.Add(unansweredPause)
		if _, err := f.read(1000, &Request{Op: OpHeader}); errors.Is(err, errWaits) {
			break
		}
	}
	if asked != 3 { // 2 s, and 0.2 s more before each
		t.Errorf("%d requests that end the reader are made, want 3", asked)
	}
}

// TestPauseWithoutAnswer: after a request without an answer none is made for a while, whoever's
// files it is for, and none of the users is charged.
func TestPauseWithoutAnswer(t *testing.T) {
	r := &costlyReader{err: ErrUnavailable}
	f, now := limitedFiles(r)
	if _, err := f.read(1000, &Request{Op: OpHeader}); !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	r.err = nil
	*now = now.Add(unansweredPause - time.Millisecond)
	if n := accepted(t, f, 1001, 3); n != 0 {
		t.Errorf("%d requests are answered in the pause", n)
	}
	*now = now.Add(time.Millisecond)
	if n := accepted(t, f, 1000, 3); n != 3 {
		t.Errorf("%d of 3 requests are answered after the pause", n)
	}
	if left := f.users[1000].left; left != cpuAtFirst {
		t.Errorf("%v are left", left)
	}
}

// TestLearntByUser: the addresses of one user's processes do not evict those of another user, and
// the sum is bounded.
func TestLearntByUser(t *testing.T) {
	l, o := newLearntByUser(1000), &object{}
	for n := range uint64(100) {
		l.put(1001, o, n, learned{name: "kept"})
	}
	for turn := range uint64(50) {
		l.turn()
		for n := range uint64(100) {
			if one, _ := l.get(1001, o, n); one.name != "kept" {
				t.Fatalf("turn %d: address %d is lost", turn, n)
			}
		}
		for n := range uint64(400) {
			l.put(1000, o, turn*400+n, learned{name: "flood"})
		}
		sum := 0
		for _, of := range l.of {
			sum += of.len()
		}
		if sum > 1000+400 {
			t.Fatalf("turn %d: %d addresses are kept", turn, sum)
		}
	}
}

// TestFlood: large maps of generated code of a user without privileges take bounded memory, and the
// names of another user's process stay.
func TestFlood(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs: root")
	}
	dir := t.TempDir()
	var text bytes.Buffer
	const lines = 20000
	for n := range lines {
		fmt.Fprintf(&text, "%x 10 n%0100d\n", 0x10000+n*16, n)
	}
	var pcs []uint64
	for n := range lines {
		pcs = append(pcs, 0x10000+uint64(n)*16)
	}
	belongTo := func(pid, user int) {
		for _, path := range []string{"", fmt.Sprintf("root/tmp/perf-%d.map", pid)} {
			if err := os.Chown(filepath.Join(dir, fmt.Sprint(pid), path), user, user); err != nil {
				t.Fatal(err)
			}
		}
	}
	jitProcess(t, dir, 99, "10000 100 service\n")
	belongTo(99, 1001)
	ps := NewProcessesOf(kernel.Root{Proc: dir}, NewFiles(&OwnReader{}))
	ps.DisableSymbolCache()
	victim := []Asked{{PID: 99, PCs: []uint64{0x10010}}}
	ps.Learn(victim)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	named := 0
	for pid := 100; pid < 124; pid++ {
		jitProcess(t, dir, pid, text.String())
		belongTo(pid, nobody)
		ps.Learn([]Asked{{PID: pid, PCs: pcs}})
		named += b2i(ps.Place(pid, 0x10000).Name != "")
		if p := ps.procs[99]; len(p.jit.names) == 0 {
			t.Fatalf("after %d processes the names of another user are lost", pid-99)
		}
	}
	if named == 0 {
		t.Error("no name of the flood was found")
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 2*mostGeneratedLean {
		t.Errorf("%d MB are kept", grown>>20)
	}
	ps.Learn(victim)
	if p := ps.Place(99, 0x10010); p.String() != "service+0x10" {
		t.Errorf("%v", p)
	}
	runtime.KeepAlive(ps)
}
