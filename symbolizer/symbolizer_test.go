package symbolizer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/heapbound"
	"culprit/symbol"
	"culprit/symbol/unwind"
	"culprit/wire"

	"golang.org/x/sys/unix"
)

// behavior in the environment makes this test binary a symbolizer that behaves so.
const behavior = "CULPRIT_TEST_SYMBOLIZER"

func TestMain(m *testing.M) {
	if how := os.Getenv(behavior); how != "" {
		f := os.NewFile(3, "socket")
		c, err := net.FileConn(f)
		if err != nil {
			os.Exit(2)
		}
		_ = f.Close() // it was duplicated
		behave(how, c.(*net.UnixConn))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// behave answers as a symbolizer does, or as one that was taken over.
func behave(how string, conn *net.UnixConn) {
	if how == "good" {
		_ = NewServer().Serve(conn) // the test sees what it answered
		return
	}
	in := newReceiver(conn)
	v := uint64(version)
	if how == "another version" {
		v++
	}
	hello := wire.AppendUint(wire.AppendString(wire.Start(nil, kindHello), magic), v)
	if how != "no hello" && !strings.HasPrefix(how, "lane of ") {
		_, _ = conn.Write(wire.End(hello, 0)) // the test sees what it answered
	}
	for {
		kind, payload, err := in.frames.Next()
		if err != nil {
			return
		}
		if kind == kindLane {
			f, err := in.file()
			if err != nil {
				return
			}
			c, err := net.FileConn(f)
			if err != nil {
				return
			}
			go behave("lane of "+how, c.(*net.UnixConn))
			continue
		}
		if kind != kindRequest {
			continue
		}
		h, q, err := decodeRequest(payload)
		if err != nil {
			return
		}
		hostile(strings.TrimPrefix(how, "lane of "), conn, h.seq, q)
	}
}

// hostile answers a request wrongly.
func hostile(how string, conn io.Writer, seq uint64, q *symbol.Request) {
	a := &symbol.Answer{BuildID: "abcd"}
	for _, addr := range q.Addrs {
		a.Names = append(a.Names, symbol.Name{Name: "f", Start: addr})
	}
	switch how {
	case "another number":
		seq++
	case "too few names":
		a.Names = a.Names[:len(a.Names)-1]
	case "a symbol behind its address":
		a.Names[0].Start++
	case "control characters":
		a.Names[0].Name = "f\x1b[31m"
	case "not UTF-8":
		a.Names[0].Name = "f\xff"
	case "a debug file that is a path":
		a.Link.Name = "../../etc/shadow"
	case "a build ID that is a path":
		a.BuildID = "../../etc/shadow"
	case "never":
		time.Sleep(time.Hour)
	case "dies":
		os.Exit(3)
	case "slow":
		for range 14 {
			time.Sleep(250 * time.Millisecond)
			_, _ = conn.Write(wire.End(wire.Start(nil, kindAlive), 0)) // the test sees it
		}
	case "alive":
		for {
			time.Sleep(50 * time.Millisecond)
			_, _ = conn.Write(wire.End(wire.Start(nil, kindAlive), 0)) // the test sees it
		}
	}
	b := wire.End(appendAnswer(wire.Start(nil, kindAnswer), seq, a, nil, usage{}), 0)
	switch how {
	case "cut":
		_, _ = conn.Write(b[:len(b)-3]) // the test sees what it answered
		os.Exit(3)
	case "doubled":
		b = append(b, b...)
	case "too long":
		copy(b, "\xff\xff\xff\x7f")
	case "another kind":
		b[4] = 99
	case "noise":
		for i := range b {
			b[i] = byte(i*7 + 13)
		}
	}
	_, _ = conn.Write(b) // the test sees what it answered
}

// starter starts this test binary as a symbolizer. how returns the behavior of the n-th one.
func starter(t *testing.T, how func(n int) string) Starter {
	t.Helper()
	var mu sync.Mutex
	n := 0
	return func(context.Context) (*net.UnixConn, func(), error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), behavior+"="+how(n))
		cmd.Stderr = os.Stderr
		conn, err := startCommand(cmd)
		return conn, func() { _ = cmd.Process.Kill() }, err
	}
}

// client returns a client whose processes behave so, and the lines that it reports.
func client(t *testing.T, how func(n int) string) (c *Client, reported func() string) {
	t.Helper()
	var mu sync.Mutex
	var lines []string
	c = NewClient(starter(t, how), func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	})
	c.hangs = time.Second
	t.Cleanup(func() { _ = c.Close() })
	return c, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(lines, "\n")
	}
}

func always(how string) func(int) string { return func(int) string { return how } }

// own opens the executable of this test and returns the addresses of two functions and their names.
// They are those of the file: go test links at a fixed address.
func own(t *testing.T) (f *os.File, addrs []uint64, names []string) {
	t.Helper()
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	for _, fn := range []any{always, TestMain} {
		of := runtime.FuncForPC(reflect.ValueOf(fn).Pointer())
		addrs, names = append(addrs, uint64(of.Entry())), append(names, of.Name())
	}
	if addrs[0] > addrs[1] {
		slices.Reverse(addrs)
		slices.Reverse(names)
	}
	return f, addrs, names
}

func namesRequest(f *os.File, addrs []uint64) *symbol.Request {
	return &symbol.Request{Op: symbol.OpNames, File: f, Addrs: addrs, Limit: time.Second,
		Wait: time.Second}
}

// TestAnswersAsOwnReader: a process answers every operation as this process does.
func TestAnswersAsOwnReader(t *testing.T) {
	c, _ := client(t, always("good"))
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head, err := (&symbol.OwnReader{}).Read(&symbol.Request{Op: symbol.OpHeader, File: f,
		Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	code := []uint64{0x2000, 0x2000 + 200} // offsets
	var addrs []uint64
	for i := range uint64(300) {
		addrs = append(addrs, head.Loads[0].Addr+i*1777)
	}
	jit, err := os.CreateTemp(t.TempDir(), "map")
	if err != nil {
		t.Fatal(err)
	}
	defer jit.Close()
	fmt.Fprintf(jit, "1000 100 first\n1040 20 second ü\n")
	for _, tt := range []struct {
		name string
		q    symbol.Request
	}{
		{"header", symbol.Request{Op: symbol.OpHeader, File: f}},
		{"names", symbol.Request{Op: symbol.OpNames, File: f, Addrs: addrs}},
		{"names of the whole file", symbol.Request{Op: symbol.OpNames, File: f, Addrs: addrs,
			Whole: true}},
		{"a debug file", symbol.Request{Op: symbol.OpNames, File: f, Debug: f, Addrs: addrs}},
		{"inlined functions", symbol.Request{Op: symbol.OpInlined, File: f, Addrs: addrs}},
		{"unwinding", symbol.Request{Op: symbol.OpUnwinding, File: f}},
		{"rows", symbol.Request{Op: symbol.OpRows, File: f}},
		{"digest", symbol.Request{Op: symbol.OpDigest, File: f,
			Spans: []symbol.Span{{From: head.Loads[0].Addr, To: head.Loads[0].Addr + 99}}}},
		{"generated code", symbol.Request{Op: symbol.OpGenerated, File: jit,
			Addrs: []uint64{0xfff, 0x1030, 0x1041, 0x10f0, 0x2000}}},
		{"a frame", symbol.Request{Op: symbol.OpFramed, Known: true, Addrs: []uint64{4},
			Text: []byte("\x55\x48\x89\xe5\x90\x90\x5d\xc3")}},
		{"no ELF file", symbol.Request{Op: symbol.OpHeader, File: jit}},
		{"code", symbol.Request{Op: symbol.OpCode, File: f}},
		{"functions", symbol.Request{Op: symbol.OpFunctions, File: f}},
		{"functions of a debug file", symbol.Request{Op: symbol.OpFunctions, File: f, Debug: f}},
		{"instructions", symbol.Request{Op: symbol.OpInstructions, File: f, Addrs: code}},
		{"returns", symbol.Request{Op: symbol.OpReturns, File: f, Addrs: code}},
		{"probeable", symbol.Request{Op: symbol.OpProbeable, File: f, Addrs: addrs}},
		{"static probes", symbol.Request{Op: symbol.OpNotes, File: noted(t)}},
		{"a variable", symbol.Request{Op: symbol.OpVariable, File: f,
			Text: []byte("runtime.mheap_")}},
		{"words of a function", symbol.Request{Op: symbol.OpSlots, File: f,
			Addrs: []uint64{0}, Text: []byte("malloc")}},
		{"no variable", symbol.Request{Op: symbol.OpVariable, File: f, Text: []byte("none")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			read := func(r symbol.Reader) string {
				q, rows := tt.q, []string(nil)
				q.Limit = 20 * time.Second
				q.Row = func(pc uint32, rule unwind.Rule) error {
					rows = append(rows, fmt.Sprint(pc, rule))
					return nil
				}
				q.Function = func(f symbol.Function) error {
					rows = append(rows, fmt.Sprintf("%+v", f))
					return nil
				}
				if q.Op != symbol.OpRows {
					q.Row = nil
				}
				if q.Op != symbol.OpFunctions {
					q.Function = nil
				}
				a, err := r.Read(&q)
				if a == nil {
					a = &symbol.Answer{}
				}
				a.CPU = 0
				if len(a.Digest) == 0 {
					a.Digest = nil
				}
				for i := range a.Inlined {
					if len(a.Inlined[i]) == 0 {
						a.Inlined[i] = nil
					}
				}
				return fmt.Sprintf("%v\n%+v\n%v", err, *a, rows)
			}
			if got, want := read(c), read(&symbol.OwnReader{}); got != want {
				t.Errorf("%.2000s\nwant\n%.2000s", got, want)
			}
		})
	}
	if cpu, memory := c.Usage(); cpu <= 0 || memory <= 1<<20 {
		t.Errorf("the process used %v and %d bytes", cpu, memory)
	}
}

// TestHostile: whatever a process answers, the request fails as one that may be repeated, the
// process is replaced, and the next one answers.
func TestHostile(t *testing.T) {
	f, addrs, names := own(t)
	for _, how := range []string{
		"no hello", "another version", "another number", "too few names",
		"a symbol behind its address", "control characters", "not UTF-8",
		"a build ID that is a path", "a debug file that is a path", "never", "dies", "cut", "doubled", "too long", "another kind",
		"noise",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c, reported := client(t, func(n int) string {
				if n == 1 {
					return how
				}
				return "good"
			})
			failed := 0
			for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				a, err := c.Read(namesRequest(f, addrs))
				if err == nil && a.Names[0].Name == names[0] {
					break
				}
				if err == nil && how == "doubled" { // its first answer is right
					continue
				}
				if failed++; !errors.Is(err, symbol.ErrUnavailable) {
					t.Fatalf("%+v, %v", a, err)
				}
				if time.Now().After(until) {
					t.Fatalf("no process answers: %v", err)
				}
			}
			if failed == 0 {
				t.Error("no request failed")
			}
			if !strings.Contains(reported(), "is started again") {
				t.Errorf("reported: %s", reported())
			}
		})
	}
}

// TestHangDoesNotBlock: while a process does not answer, a request returns after a second, and
// requests fail at once when it was killed.
func TestHangDoesNotBlock(t *testing.T) {
	f, addrs, _ := own(t)
	c, _ := client(t, always("never"))
	began := time.Now()
	_, err := c.Read(namesRequest(f, addrs))
	if took := time.Since(began); !errors.Is(err, symbol.ErrUnavailable) || took > 5*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

// TestKilledInAnswer: a process that is killed while it answers fails the request, and rows that
// came before it do not pass for a table.
func TestKilledInAnswer(t *testing.T) {
	f, _, _ := own(t)
	var pid int
	start := starter(t, always("good"))
	c := NewClient(func(ctx context.Context) (*net.UnixConn, func(), error) {
		conn, kill, err := start(ctx)
		if err == nil {
			pid = peer(conn)
		}
		return conn, kill, err
	}, func(string) {})
	defer c.Close() //nolint:errcheck // nil
	// On a loaded machine all rows may be under way before the process ends.
	rows, err := 0, error(nil)
	for range 50 {
		rows = 0
		_, err = c.Read(&symbol.Request{Op: symbol.OpRows, File: f, Limit: time.Second,
			Row: func(uint32, unwind.Rule) error {
				if rows++; rows == 1 {
					c.mu.Lock()
					p := c.current
					c.mu.Unlock()
					if p != nil {
						p.kill()
					}
				}
				return nil
			}})
		if errors.Is(err, symbol.ErrUnavailable) && rows > 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%d rows, %v (process %d)", rows, err, pid)
}

// peer returns the process at the other end; 0: unknown.
func peer(conn *net.UnixConn) (pid int) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // 0 then
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// TestAbortedRows: a caller that does not want more rows gets its own error, and the process goes
// on.
func TestAbortedRows(t *testing.T) {
	f, addrs, names := own(t)
	c, reported := client(t, always("good"))
	enough := errors.New("enough")
	_, err := c.Read(&symbol.Request{Op: symbol.OpRows, File: f, Limit: 5 * time.Second,
		Row: func(uint32, unwind.Rule) error { return enough }})
	if !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	a, err := c.Read(namesRequest(f, addrs))
	if err != nil || a.Names[1].Name != names[1] || reported() != "" {
		t.Errorf("%+v, %v, %s", a, err, reported())
	}
}

// stream is a connection for fuzzing: it reads what a peer sent.
type stream struct{ *bytes.Reader }

func (stream) Write(b []byte) (int, error) { return len(b), nil }

// FuzzAnswer: whatever a process sends, the client reads an answer that holds what decodeAnswer
// promises, or ends the process.
func FuzzAnswer(f *testing.F) {
	q := &symbol.Request{Op: symbol.OpGenerated, Addrs: []uint64{0x1000, 0x1040}}
	link := symbol.DebugLink{Name: "a.debug", CRC: 0xfedcba98}
	a := &symbol.Answer{BuildID: "00ff", Link: link, CPU: 5, To: 3, Names: []symbol.Name{
		{Name: "f", Start: 0x1000, Low: 0x1000, High: 0x1010},
		{Name: "g", Start: 0x1020, Low: 0x1020, High: 0x1050},
	}, Loads: []symbol.Segment{{Offset: 1, Addr: 2, FileSize: 3, MemSize: 4}},
		Spans: []symbol.Span{{From: 1, To: 2}}, Inlined: [][]string{{"i"}, nil}}
	f.Add(appendAnswer(nil, 1, a, nil, usage{7, 8}), []byte{})
	limit := appendAnswer(nil, 1, &symbol.Answer{}, symbol.ErrLimit, usage{})
	f.Add(limit, []byte{1, 1, 0, 2, 1, 2, 4})
	var rows []byte
	w := &rowWriter{seq: 1, rules: map[unwind.Rule]uint64{},
		send: func(b []byte) error {
			rows = append(rows, b[wire.HeadSize:]...)
			return nil
		}}
	for pc := range uint32(9) {
		rule := unwind.Rule{CFA: unwind.CFASP, Offset: int32(pc)}
		if err := w.add(pc*16, rule); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.flush(); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{}, rows)
	addNotes(f)
	heapbound.Fuzz(f, func(t *testing.T, answer, rows []byte) {
		fuzzCodeAnswers(t, answer, rows)
		last := uint32(0)
		r := rowReader{seq: 1, row: func(pc uint32, rule unwind.Rule) error {
			if pc < last || rule.CFA > unwind.CFAOther {
				t.Fatalf("row %d %+v", pc, rule)
			}
			last = pc
			return nil
		}}
		_ = r.decode(rows) // any error will do
		a, _, _, err := decodeAnswer(answer, 1, q, 100)
		if err != nil {
			return
		}
		for i, n := range a.Names {
			if n.Low > q.Addrs[i] || n.High <= q.Addrs[i] || n.Name != "" && n.Start > n.Low {
				t.Fatalf("%x: %+v", q.Addrs[i], n)
			}
		}
		if strings.ContainsAny(a.BuildID, "/.") || !a.Link.Valid() || a.To > 100 {
			t.Fatalf("%+v", a)
		}
	})
}

// FuzzRequest: whatever a client sends, the process answers or ends the connection.
func FuzzRequest(f *testing.F) {
	frame := func(k byte, b []byte) []byte {
		return wire.End(append(wire.Start(nil, k), b...), 0)
	}
	q := &symbol.Request{Op: symbol.OpFramed, Addrs: []uint64{2},
		Text: []byte("\x55\x48\x89\xe5\xc3")}
	request := frame(kindRequest, appendRequest(nil, 1, q, false))
	f.Add(request)
	f.Add(append(request, request...))
	f.Add(request[:len(request)-2])
	f.Add(frame(kindRequest, appendRequest(nil, 1, &symbol.Request{Op: symbol.OpDigest,
		Spans: []symbol.Span{{From: 1, To: 9}}}, true)))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		s := &Server{page: 4096}
		in := &receiver{}
		in.frames = wire.Reader{From: bytes.NewReader(b), Limit: maxRequest}
		for {
			kind, payload, err := in.frames.Next()
			if err != nil || kind != kindRequest {
				return
			}
			if s.answer(&answers{to: stream{}}, in, payload) != nil {
				return
			}
		}
	})
}
