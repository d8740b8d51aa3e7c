package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// floodAttacks are many connections, viewers and processes.
func floodAttacks() []attack {
	return []attack{
		{"S13", "a local user", "9,000 idle connections from many addresses",
			"a token gets in, no second lost", idleConnections},
		{"V1", "view", "1,000 viewers of one query", "each has ticks, no second lost",
			viewersAlike},
		{"V2", "view", "200 viewers of different queries that do not read", "no second lost",
			viewersApart},
		{"S1", "a local user", "24 processes with perf maps of 60 MB",
			"recording and profile go on", perfMaps},
		{"P1", "a local user",
			"perf map as FIFO, directory, link to /etc/shadow, /dev/zero, 3 GB sparse",
			"not followed, no hang", oddMaps},
		{"P2", "a local user", "5,000 processes at once", "counted, no second lost", manyProcesses},
		{"L1", "a local user", "the socket with mode 777", "closed by the peer's user", openSocket},
	}
}

func idleConnections(b *bench) (string, error) {
	c := actAsNobody("idle", b.main.host, "9000")
	out, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := b.helper(c); err != nil {
		return "", err
	}
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(out).ReadString('\n') // "": it has ended
		line <- strings.TrimSpace(text)
	}()
	opened := "not yet all open"
	for range 8 {
		time.Sleep(time.Second)
		began := time.Now()
		fresh := *b.main.web
		fresh.Transport = &http.Transport{DisableKeepAlives: true}
		fresh.Timeout = 5 * time.Second
		q, err := http.NewRequest("GET", "http://"+b.main.host+"/api/health", nil)
		if err != nil {
			return "", err
		}
		q.Header.Set("Authorization", "Bearer "+b.main.token)
		a, err := fresh.Do(q)
		if err != nil {
			return "", fmt.Errorf("a new connection with the token: %w", err)
		}
		_ = a.Body.Close()
		if took := time.Since(began); a.StatusCode != 200 || took > 3*time.Second {
			return "", fmt.Errorf("the token gets status %d after %v", a.StatusCode, took)
		}
		select {
		case opened = <-line:
		default:
		}
	}
	return opened + ", the token gets in each second", nil
}

// follow opens live views and returns how many of them have got a tick. With read=false nothing is
// read from them.
func (b *bench) follow(queries []string, read bool, time_ time.Duration) (int, error) {
	token, err := b.main.giveToken("view")
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	var ticks atomic.Int64
	var failed atomic.Pointer[string]
	for _, q := range queries {
		wg.Go(func() {
			r, err := http.NewRequestWithContext(ctx, "GET", "http://"+b.main.host+"/api/live?"+
				url.Values{"q": {q}}.Encode(), nil)
			if err != nil {
				return // the address is constant
			}
			r.Header.Set("Authorization", "Bearer "+token)
			a, err := web.Do(r)
			for range 20 { // as a browser tries again: the number of unknown clients is limited
				if err == nil || ctx.Err() != nil {
					break
				}
				time.Sleep(200 * time.Millisecond)
				a, err = web.Do(r)
			}
			if err != nil {
				text := err.Error()
				failed.Store(&text)
				return
			}
			defer a.Body.Close()
			if a.StatusCode != 200 {
				failed.Store(&a.Status)
				return
			}
			if !read {
				<-ctx.Done()
				return
			}
			for s := bufio.NewScanner(a.Body); s.Scan(); {
				if s.Text() == "event: tick" {
					ticks.Add(1)
					break
				}
			}
			<-ctx.Done()
		})
	}
	time.Sleep(time_)
	if text := failed.Load(); text != nil && ctx.Err() == nil {
		return int(ticks.Load()), errors.New(*text)
	}
	return int(ticks.Load()), nil
}

func viewersAlike(b *bench) (string, error) {
	ticks, err := b.follow(slices.Repeat([]string{"net.device.bytes by device,direction"}, 1000),
		true, 10*time.Second)
	if err != nil {
		return "", fmt.Errorf("%d viewers have a tick: %w", ticks, err)
	}
	if ticks < 1000 {
		return "", fmt.Errorf("only %d viewers have a tick", ticks)
	}
	return "1,000 have ticks", nil
}

func viewersApart(b *bench) (string, error) {
	var queries []string
	for i := range 200 {
		queries = append(queries, fmt.Sprintf(
			"process.cpu by pid,process,mode where pid != %d", 100000+i))
	}
	if _, err := b.follow(queries, false, 8*time.Second); err != nil &&
		!strings.Contains(err.Error(), "503") && !strings.Contains(err.Error(), "429") {
		return "", err
	}
	return "no tick late", nil
}

func perfMaps(b *bench) (string, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return "", err
	}
	if free := info.Freeram * uint64(info.Unit); free < 3<<30 {
		return "", fmt.Errorf("%w: %d MB of memory are free", errNotLooked, free>>20)
	}
	for range 24 {
		if err := b.helper(actAsNobody("jit", "large")); err != nil {
			return "", err
		}
	}
	from := time.Now().Add(5 * time.Second)
	time.Sleep(25 * time.Second)
	a, err := b.main.ask("cpu.stack.samples", from, time.Now().Add(-2*time.Second))
	if err != nil {
		return "", err
	}
	all := len(a.Elapsed)
	have := all - gaps(a) // a late second is within the interval of the next one
	if have < all*8/10 {
		return "", fmt.Errorf("the profile has %d of %d seconds", have, all)
	}
	return fmt.Sprintf("the profile has %d of %d seconds", have, all), nil
}

func oddMaps(b *bench) (string, error) {
	for _, kind := range []string{"fifo", "directory", "shadow", "zero", "sparse"} {
		if err := b.helper(actAsNobody("jit", kind)); err != nil {
			return "", err
		}
	}
	from := time.Now().Add(2 * time.Second)
	time.Sleep(8 * time.Second)
	a, err := b.main.ask("cpu.stack.samples", from, time.Now().Add(-2*time.Second))
	if err != nil {
		return "", err
	}
	if a.measured() < 2 {
		return "", errors.New("the profile has stopped")
	}
	shadow, _ := os.ReadFile("/etc/shadow") // root reads it
	first, _, _ := strings.Cut(string(shadow), "\n")
	raw, err := b.main.request("GET",
		"/api/ask?q=cpu.stack.samples+by+process,user&from=-10s&to=now"+
			"&step=1000", b.main.token, "")
	if err == nil && first != "" && strings.Contains(string(raw.body), first) {
		err = errors.New("a line of /etc/shadow is a name")
	}
	return "the profile goes on", err
}

func manyProcesses(b *bench) (string, error) {
	c := asNobody("sh", "-c", "i=0; while [ $i -lt 5000 ]; do sleep 60 & i=$((i+1)); done; wait")
	if err := b.helper(c); err != nil {
		return "", err
	}
	defer func() { _ = unix.Kill(-c.Process.Pid, unix.SIGKILL) }() // the group that it leads
	from := time.Now()
	for end := from.Add(40 * time.Second); len(descendants(c.Process.Pid)) <= 5000; {
		if time.Now().After(end) {
			return "", fmt.Errorf("%w: 5,000 processes do not start in 40 s", errNotLooked)
		}
		time.Sleep(500 * time.Millisecond)
	}
	time.Sleep(3 * time.Second)
	a, err := b.main.ask("sched.forks", from.Add(-time.Second), time.Now())
	if err != nil {
		return "", err
	}
	sum := 0.
	for i, e := range a.Elapsed {
		if e > 0 && len(a.Series) > 0 && a.Series[0].Values[i] != nil {
			sum += *a.Series[0].Values[i] * e / 1000
		}
	}
	if sum < 5000 {
		return "", fmt.Errorf("only %.0f forks are recorded", sum)
	}
	return fmt.Sprintf("%.0f forks recorded", sum), nil
}

func openSocket(b *bench) (string, error) {
	// The directory above is closed to others: the socket's own check is tried at another path.
	path := "/tmp/attack.sock"
	socket := filepath.Join(b.main.dir, "culprit.sock")
	if err := errors.Join(os.Chmod(socket, 0o777), os.WriteFile(path, nil, 0o666)); err != nil {
		return "", err
	}
	defer os.Chmod(socket, 0o600) //nolint:errcheck // the directory is removed
	if err := unix.Mount(socket, path, "", unix.MS_BIND, ""); err != nil {
		return "", err
	}
	defer unix.Unmount(path, 0) //nolint:errcheck // the namespace ends
	c := actAsNobody("socket", path)
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// ownerOf returns the user ID of a file's owner, 0 if there is no file.
func ownerOf(path string) int {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0
	}
	return int(st.Uid)
}

// spawn runs a shell loop that starts n short processes.
func spawn(n int) *exec.Cmd {
	return asNobody("sh", "-c", "i=0; while [ $i -lt "+strconv.Itoa(n)+
		" ]; do /bin/true; i=$((i+1)); done")
}
