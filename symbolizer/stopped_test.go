package symbolizer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/symbol"
	"culprit/symbol/unwind"

	"golang.org/x/sys/unix"
)

// signalled returns a client of a good symbolizer, and a function that sends it a signal.
func signalled(t *testing.T) (c *Client, send func(unix.Signal)) {
	t.Helper()
	pids := make(chan int, 8)
	c = NewClient(func(context.Context) (*net.UnixConn, func(), error) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), behavior+"=good")
		conn, err := startCommand(cmd)
		if err == nil {
			pids <- cmd.Process.Pid
		}
		return conn, func() { _ = cmd.Process.Kill() }, err
	}, func(string) {})
	t.Cleanup(func() { _ = c.Close() }) // nil
	// The first request starts it.
	_, err := c.Read(&symbol.Request{Op: symbol.OpFramed, Text: []byte{0xc3}, Addrs: []uint64{0},
		Limit: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	pid := <-pids
	return c, func(s unix.Signal) {
		if err := unix.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
		if s == unix.SIGSTOP {
			awaitStopped(t, pid)
		}
	}
}

// awaitStopped waits until all threads of a process are stopped. Until then it may answer.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("%d threads of process %d, %v", len(threads), pid, err)
		}
		if !slices.ContainsFunc(threads, func(name string) bool {
			b, err := os.ReadFile(name)
			return err != nil || !strings.Contains(string(b), ") T ")
		}) {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("process %d does not stop", pid)
		}
	}
}

// TestStopped: a symbolizer that is stopped in the middle of its work costs a call about a second.
// Meanwhile other calls need not wait, and the next calls return at once. A note has the reason.
// When it goes on, all have names and tables.
func TestStopped(t *testing.T) {
	c, send := signalled(t)
	pid, other := sleeper(t), sleeper(t)
	pcs := code(t, pid)
	ps := symbol.NewProcessesOf(kernel.Root{}, symbol.NewFiles(c))
	ps.DisableSymbolCache()
	u := symbol.NewUnwinding(kernel.Root{}, nil, symbol.NewFiles(c))
	send(unix.SIGSTOP)
	t.Cleanup(func() { send(unix.SIGCONT) })

	const second, atOnce = 5 * time.Second, 500 * time.Millisecond // on a busy machine
	within := func(what string, limit time.Duration, f func()) {
		t.Helper()
		began := time.Now()
		if f(); time.Since(began) > limit {
			t.Errorf("%s took %v", what, time.Since(began))
		}
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		within("names", second, func() { ps.Learn([]symbol.Asked{{PID: pid, PCs: pcs}}) })
	}()
	for n := 0; ; n++ {
		within("opening files", atOnce, func() { _ = ps.OpenMappedFiles(other) }) // it may be read
		select {
		case <-over:
			if n < 10 {
				t.Errorf("only %d other calls while names are read", n)
			}
		default:
			time.Sleep(time.Millisecond)
			continue
		}
		break
	}
	within("later names", atOnce, func() { ps.Learn([]symbol.Asked{{PID: pid, PCs: pcs}}) })
	if place := ps.Stack(pid, pcs[:1])[0]; place.Name != "" || !place.Late {
		t.Errorf("%+v has a name, or never will", place)
	}
	if notes := strings.Join(ps.Notes(), "\n"); !strings.Contains(notes, "did not answer") {
		t.Errorf("notes: %q", notes)
	}
	executed := func() []symbol.Executed {
		all, err := u.Executed(pid)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	notYet := func(all []symbol.Executed) bool {
		return slices.ContainsFunc(all, func(e symbol.Executed) bool {
			return e.Why == symbol.NotYet && e.Table == nil
		})
	}
	within("tables", second, func() {
		if all := executed(); !notYet(all) {
			t.Errorf("%+v", all)
		}
	})
	send(unix.SIGCONT)
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ps.Learn([]symbol.Asked{{PID: pid, PCs: pcs}})
		late := 0
		for _, place := range ps.Stack(pid, pcs) {
			if place.Late {
				late++
			}
		}
		if late == 0 && !notYet(executed()) {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d of %d addresses have no names yet", late, len(pcs))
		}
	}
}

// TestStoppedInTool: a tool waits some seconds for a symbolizer that is stopped. Then a note has
// the reason, and the next one answers.
func TestStoppedInTool(t *testing.T) {
	c, send := signalled(t)
	pid := sleeper(t)
	pcs := code(t, pid)
	ps := symbol.NewProcessesOf(kernel.Root{}, symbol.NewToolFiles(c))
	send(unix.SIGSTOP)
	began := time.Now()
	place := ps.Stack(pid, pcs[:1])[0]
	if took := time.Since(began); place.Name != "" || took < silence || took > 3*silence {
		t.Errorf("%+v after %v", place, took)
	}
	if notes := strings.Join(ps.Notes(), "\n"); !strings.Contains(notes, "did not answer") {
		t.Errorf("notes: %q", notes)
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if place = ps.Stack(pid, pcs[:1])[0]; !place.Late {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%+v has no name yet", place)
		}
	}
	if want := symbol.NewProcesses(kernel.Root{}).Stack(pid, pcs[:1])[0]; place != want {
		t.Errorf("%+v, want %+v", place, want)
	}
}

// TestSlow: a request may take longer than a process may be silent. One that never ends is ended.
func TestSlow(t *testing.T) {
	f, addrs, _ := own(t)
	for _, tt := range []struct {
		how   string
		hangs time.Duration
		fails bool
	}{{"slow", 3 * time.Second, false}, {"alive", 200 * time.Millisecond, true}} {
		t.Run(tt.how, func(t *testing.T) {
			t.Parallel()
			c, _ := client(t, always(tt.how))
			c.hangs = tt.hangs
			q := namesRequest(f, addrs)
			q.Wait = 0
			if _, err := c.Read(q); (err != nil) != tt.fails {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestStoppedInRows: a symbolizer that stops while it sends rows ends the request after about a
// second. No row is passed on after that, and the answer frees its connection.
func TestStoppedInRows(t *testing.T) {
	c, send := signalled(t)
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	rows, over := 0, false
	began := time.Now()
	_, err = c.Read(&symbol.Request{Op: symbol.OpRows, File: f, Limit: 5 * time.Second,
		Wait: time.Second, Row: func(uint32, unwind.Rule) error {
			if over {
				t.Error("a row after the end")
			}
			if rows++; rows == 1 {
				send(unix.SIGSTOP)
			}
			return nil
		}})
	over = true
	took := time.Since(began)
	send(unix.SIGCONT)
	if err == nil || took > 10*time.Second {
		t.Errorf("%d rows, %v after %v", rows, err, took)
	}
	for range 2 * lanesEach { // all connections are of use again
		_, err := c.Read(&symbol.Request{Op: symbol.OpHeader, File: f, Limit: time.Second})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fileUsers starts n processes with an executable file each, and returns some of their addresses.
func fileUsers(tb testing.TB, n int) (stacks []symbol.Asked) {
	tb.Helper()
	from, err := exec.LookPath("sleep")
	if err != nil {
		tb.Skip("needs: tool sleep")
	}
	dir := tb.TempDir()
	for i := range n {
		path := filepath.Join(dir, fmt.Sprint("sleep", i))
		copyFile(tb, from, path)
		c := exec.Command(path, "600")
		if err := c.Start(); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() }) // killed
		for until := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.Process.Pid)) // again
			maps, _ := symbol.ParseMaps(b)
			one := symbol.Asked{PID: c.Process.Pid}
			for _, m := range maps {
				if m.Exec && m.Path == path {
					for at := m.Start; at < m.End; at += 256 {
						one.PCs = append(one.PCs, at)
					}
				}
			}
			if len(one.PCs) > 0 {
				stacks = append(stacks, one)
				break
			}
			if time.Now().After(until) {
				tb.Fatal("it does not execute its file")
			}
		}
	}
	return stacks
}

func copyFile(tb testing.TB, from, to string) {
	tb.Helper()
	in, err := os.Open(from)
	if err != nil {
		tb.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// A countingReader counts what is asked of another reader.
type countingReader struct {
	symbol.Reader
	alone int
	sizes []int // of requests together
}

func (r *countingReader) Read(q *symbol.Request) (*symbol.Answer, error) {
	r.alone++
	return r.Reader.Read(q)
}

func (r *countingReader) ReadAll(all []*symbol.Request) []symbol.Result {
	r.sizes = append(r.sizes, len(all))
	return r.Reader.ReadAll(all)
}

// TestTogether: what a tick needs of 40 new files is asked in two rounds: headers, then names.
func TestTogether(t *testing.T) {
	c, _ := client(t, always("good"))
	r := &countingReader{Reader: c}
	stacks := fileUsers(t, 40)
	ps := symbol.NewProcessesOf(kernel.Root{}, symbol.NewToolFiles(r))
	ps.DisableSymbolCache()
	ps.Learn(stacks)
	if want := []int{32, 8, 32, 8}; !slices.Equal(r.sizes, want) || r.alone != 0 {
		t.Errorf("requests together: %v, alone: %d; want %v", r.sizes, r.alone, want)
	}
	own := symbol.NewProcesses(kernel.Root{})
	for _, s := range stacks {
		got, want := ps.Stack(s.PID, s.PCs), own.Stack(s.PID, s.PCs)
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

// BenchmarkNewFiles is what a server does when 40 processes with new files were sampled.
func BenchmarkNewFiles(b *testing.B) {
	c := NewClient(func(context.Context) (*net.UnixConn, func(), error) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), behavior+"=good")
		conn, err := startCommand(cmd)
		return conn, func() { _ = cmd.Process.Kill() }, err
	}, func(string) {})
	defer c.Close() //nolint:errcheck // nil
	stacks := fileUsers(b, 40)
	cpu := func() time.Duration {
		var u unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // 0 then
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	away, _ := c.Usage()
	own := cpu()
	defer func() {
		now, _ := c.Usage()
		b.ReportMetric(float64(now-away)/1e6/float64(b.N), "ms-symbolizer/op")
		b.ReportMetric(float64(cpu()-own)/1e6/float64(b.N), "ms-own/op")
	}()
	for b.Loop() {
		ps := symbol.NewProcessesOf(kernel.Root{}, symbol.NewToolFiles(c))
		ps.DisableSymbolCache()
		ps.Learn(stacks)
		if place := ps.Stack(stacks[0].PID, stacks[0].PCs[:1])[0]; place.Late {
			b.Fatalf("%+v has no name", place)
		}
	}
}

// Requests to a symbolizer that cannot be started fail at once: only the first waits for the start.
func TestNeverStarts(t *testing.T) {
	c := NewClient(func(context.Context) (*net.UnixConn, func(), error) {
		return nil, nil, errors.New("no such process")
	}, func(string) {})
	defer c.Close() //nolint:errcheck // always nil
	began := time.Now()
	for range 100 {
		r := c.ReadAll([]*symbol.Request{{Op: symbol.OpHeader, Limit: time.Minute}})
		if !errors.Is(r[0].Err, symbol.ErrUnavailable) {
			t.Fatalf("error %v", r[0].Err)
		}
	}
	if took := time.Since(began); took > 4*startWait {
		t.Errorf("100 requests took %v", took)
	}
}
