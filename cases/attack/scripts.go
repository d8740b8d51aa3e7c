package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// scriptAttacks are D programs of a token for trace.
func scriptAttacks() []attack {
	return []attack{
		{"S14", "trace", "scripts with bufsize=1g, aggsize=4g, dynvarsize=4g",
			"refused or less, below 1 GB of the machine", largeScripts},
		{"S16", "trace", "11 scripts that run, write or read files", "refused", escapingScripts},
	}
}

// script sends a D program with a token for trace and removes it if it was accepted.
func (b *bench) script(text string) (reply, error) {
	token, err := b.main.giveToken("trace")
	if err != nil {
		return reply{}, err
	}
	body, err := json.Marshal(map[string]any{"text": text, "name": "attack"})
	if err != nil {
		return reply{}, err
	}
	a, err := b.main.post("/api/scripts", token, string(body))
	if err == nil && a.status == 200 {
		time.Sleep(time.Second) // it runs
		var made struct{ ID int }
		if json.Unmarshal(a.body, &made) == nil {
			_, err = b.main.post(fmt.Sprintf("/api/scripts/%d/remove", made.ID), token, "{}")
		}
	}
	return a, err
}

func largeScripts(b *bench) (string, error) {
	t, before := &tally{}, available()
	least := before
	for _, option := range []string{"bufsize=1g", "aggsize=4g", "dynvarsize=4g"} {
		a, err := b.script("#pragma D option " + option +
			"\nprofile-97 { @[execname] = count(); self->x = 1; }")
		if err != nil {
			return "", err
		}
		// One that shrinks to the limit is accepted.
		t.add(option, fmt.Sprint(a.status), "200", "409", "413", "422")
		least = min(least, available())
	}
	// Ten that fit one by one, but not together.
	token, err := b.main.giveToken("trace")
	if err != nil {
		return "", err
	}
	accepted := 0
	for i := range 10 {
		body := fmt.Sprintf(`{"name":"part%d","text":"#pragma D option bufsize=32m\n`+
			`profile-97 { printf(\"%%d\", %d); }"}`, i, i)
		a, err := b.main.post("/api/scripts", token, body)
		if err != nil {
			return "", err
		}
		if a.status == 200 {
			accepted++
		}
	}
	var list struct{ Scripts []struct{ ID int } }
	if err := b.main.get("/api/scripts", &list); err != nil {
		return "", err
	}
	for _, k := range list.Scripts {
		_, err = b.main.post(fmt.Sprintf("/api/scripts/%d/remove", k.ID), token, "{}")
	}
	if accepted == 10 {
		return "", errors.New("10 scripts of 32 MB per CPU run together")
	}
	least = min(least, available())
	text, bad := t.result()
	if taken := before - least; taken > 1<<30 {
		bad = fmt.Errorf("they take %d MB of the machine", taken>>20)
	}
	return fmt.Sprintf("%s; %d of 10 with 32 MB per CPU run together; at most %d MB taken", text,
		accepted, (before-least)>>20), errors.Join(err, bad)
}

// available returns the memory that programs can have, in bytes.
func available() int64 {
	text, _ := os.ReadFile("/proc/meminfo") // there is always one
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

func escapingScripts(b *bench) (string, error) {
	t := &tally{}
	for _, text := range []string{
		`BEGIN { system("touch /tmp/owned"); exit(0); }`,
		`#pragma D option destructive` + "\n" + `BEGIN { system("touch /tmp/owned"); exit(0); }`,
		`#pragma D option destructive` + "\n" + `BEGIN { raise(9); }`,
		`#pragma D option destructive` + "\n" + `syscall:::entry { copyout("x", arg1, 1); }`,
		`#pragma D option destructive` + "\n" + `BEGIN { panic(); }`,
		`BEGIN { freopen("/tmp/owned"); printf("x"); }`,
		`#include "/etc/shadow"`,
		"#pragma D option libdir=/etc\nBEGIN { exit(0); }",
		"#pragma D option cpp\n#include </etc/passwd>\nBEGIN { exit(0); }",
		`BEGIN { stop(); }`,
		`BEGIN { chill(1000000000); }`,
	} {
		a, err := b.script(text)
		if err != nil {
			return "", err
		}
		if strings.Contains(string(a.body), "root:") {
			return "", fmt.Errorf("%s: a line of a file of root is in the answer", text)
		}
		t.add(text, fmt.Sprint(a.status), "400", "403", "422")
	}
	if _, err := os.Stat("/tmp/owned"); err == nil {
		return "", errors.New("a script made a file")
	}
	return t.result()
}

// worker is the name of the processes that answer questions.
const worker = "culprit-worker"

// frameAttacks write nonsense into the connections between the processes, as one of them that an
// attacker has taken over could.
func frameAttacks() []attack {
	return []attack{
		{"F1", "the server, taken over", "cut, wrong, long and doubled frames to the recorder",
			"recording goes on", nonsenseFrom("culprit-server")},
		{"F4", "the symbolizer, taken over", "cut, wrong, long and doubled frames to the recorder",
			"recording goes on", nonsenseFrom("culprit-symbols")},
		{"F3", "a worker, taken over", "cut, wrong, long and doubled frames to the server",
			"recording goes on", nonsenseFrom(worker)},
		{"F2", "the recorder, taken over", "cut, wrong, long and doubled frames to the server",
			"recording goes on", nonsenseFrom("culprit-record")},
	}
}

// nonsenseFrom returns an attack that writes to the sockets of a process.
func nonsenseFrom(name string) func(*bench) (string, error) {
	return func(b *bench) (string, error) {
		written := 0
		for _, junk := range [][]byte{
			{100, 0, 0, 0, 1, 2, 3}, // cut
			[]byte("GET / HTTP/1.1\r\n\r\n"),
			{0xff, 0xff, 0xff, 0x7f, 1},
			{8, 0, 0, 0, 1, 'c', 'u', 'l', 'p', 'r', 'i', 't', 99},
			{0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		} {
			if name == worker { // one starts with a question
				if _, _, err := b.form("query", "1"); err != nil {
					return "", err
				}
			}
			pids := b.main.processes()[name]
			if len(pids) == 0 {
				time.Sleep(2 * time.Second) // it is being started again
				continue
			}
			n, err := writeToSockets(pids[0], junk)
			if err != nil {
				return "", err
			}
			written += n
			time.Sleep(1500 * time.Millisecond)
		}
		if written == 0 {
			return "",
				errors.New("it has no connection to another process: the attack has to be adapted")
		}
		if err := b.main.within(30*time.Second, "an answer", b.main.answers); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d connections got nonsense", written), nil
	}
}

// writeToSockets writes to the stream sockets of a process that have no name: those between
// processes. It returns their number.
func writeToSockets(pid int, junk []byte) (n int, err error) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(process)
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		number, err := strconv.Atoi(f.Name())
		if err != nil {
			return n, err
		}
		link, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "fd", f.Name())) // closed
		if !strings.HasPrefix(link, "socket:") {
			continue
		}
		fd, err := unix.PidfdGetfd(process, number, 0)
		if err != nil {
			continue // closed by now
		}
		if isPair(fd) {
			file := os.NewFile(uintptr(fd), "socket")
			if _, err := file.Write(junk); err == nil {
				n++
			}
			_ = file.Close() // a copy
			continue
		}
		_ = unix.Close(fd) // a copy
	}
	return n, nil
}

// isPair reports whether a socket is one of a pair of stream sockets.
func isPair(fd int) bool {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_STREAM {
		return false
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return false
	}
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return false
	}
	own, ok := name.(*unix.SockaddrUnix)
	other, ok2 := peer.(*unix.SockaddrUnix)
	// "@": x/sys makes it of the zero byte of a socket without a name.
	return ok && ok2 && strings.Trim(own.Name+other.Name, "@") == ""
}
