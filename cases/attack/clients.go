package main

import (
	"bufio"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// clientAttacks are hostile servers, and clients of the load test.
func clientAttacks() []attack {
	return []attack{
		{"S9", "a token of load serve", "64 connections with buffers of 16 MB that send nothing",
			"refused or below 300 MB", loadMemory},
		{"L2", "none", "load serve: wrong proof, silent connections", "refused, a client gets in",
			loadStrangers},
		{"S10", "a server of a cluster", "1.4 MB of gzip that are 700 MB of JSON",
			"an error, below 200 MB", gzipServer},
		{"S11", "the network", "the token by plain HTTP to another machine", "refused", plainToken},
		{"C1", "a server of a cluster", "a redirect to another host",
			"the token stays with the host", redirected},
	}
}

// loadServer starts `culprit load serve`.
func (b *bench) loadServer(token string, args ...string) (address string, pid int, err error) {
	address = freeAddress()
	c := b.grouped(append([]string{b.bin, "load", "serve", "--listen", address}, args...)...)
	c.Env = append(os.Environ(), "CULPRIT_LOAD_TOKEN="+token)
	if err := b.helper(c); err != nil {
		return "", 0, err
	}
	for range 100 {
		if conn, err := net.Dial("tcp", address); err == nil {
			return address, c.Process.Pid, conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "", 0, errors.New("load serve does not listen")
}

// send sends a message of the load test's protocol; receive returns one.
func send(c net.Conn, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

func receive(c net.Conn) (map[string]json.RawMessage, error) {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	text := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, text); err != nil {
		return nil, err
	}
	var m map[string]json.RawMessage
	return m, json.Unmarshal(text, &m)
}

type object = map[string]any

// login proves a token to a load server, and returns the kind of its answer.
func login(address, token string) (net.Conn, string, error) {
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, "", err
	}
	if err := errors.Join(c.SetDeadline(time.Now().Add(20*time.Second)),
		send(c, object{"call": object{"version": 1}})); err != nil {
		return c, "", err
	}
	m, err := receive(c)
	if err != nil {
		return c, "", err
	}
	var hello struct{ Nonce string }
	if err := json.Unmarshal(m["hello"], &hello); err != nil {
		return c, "", err
	}
	mac := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(mac, "culprit load 1\n%s\nabc\n", hello.Nonce)
	if err := send(c, object{"proof": object{"nonce": "abc",
		"mac": hex.EncodeToString(mac.Sum(nil))}}); err != nil {
		return c, "", err
	}
	m, err = receive(c)
	for kind := range m {
		return c, kind, err
	}
	return c, "", err
}

func loadMemory(b *bench) (string, error) {
	address, pid, err := b.loadServer("secret")
	if err != nil {
		return "", err
	}
	c, kind, err := login(address, "secret")
	if err != nil || kind != "welcome" {
		return "", failed(err, "login: %s", kind)
	}
	defer c.Close()
	if err := send(c, object{"test": object{
		"kind": "rr", "way": "up", "streams": 64, "for_ns": 5e9, "every_ns": 1e9,
		"request_bytes": 16 << 20, "response_bytes": 16 << 20, "look": false,
	}}); err != nil {
		return "", err
	}
	m, err := receive(c)
	if err != nil {
		return "", err
	}
	if m["ready"] == nil {
		return fmt.Sprintf("refused: %.90s", m["refused"]), nil
	}
	var ready struct{ ID string }
	if err := json.Unmarshal(m["ready"], &ready); err != nil {
		return "", err
	}
	for i := range 64 {
		j, err := net.Dial("tcp", address)
		if err != nil {
			return "", err
		}
		defer j.Close()
		if err := send(j, object{"join": object{"id": ready.ID, "way": "up",
			"stream": i}}); err != nil {
			return "", err
		}
	}
	if _, err := receive(c); err != nil {
		return "", err
	}
	if err := send(c, object{"begin": object{}}); err != nil {
		return "", err
	}
	most := int64(0)
	for range 30 {
		time.Sleep(100 * time.Millisecond)
		most = max(most, statusBytes(pid, "VmRSS:"))
	}
	if most > 300e6 {
		return "", fmt.Errorf("it takes %d MB", most/1e6)
	}
	return fmt.Sprintf("it takes %d MB", most/1e6), nil
}

func loadStrangers(b *bench) (string, error) {
	address, _, err := b.loadServer("secret")
	if err != nil {
		return "", err
	}
	c, kind, err := login(address, "wrong")
	if err != nil || kind != "refused" {
		return "", failed(err, "a wrong proof: %s", kind)
	}
	_ = c.Close()
	for range 64 {
		if silent, err := net.Dial("tcp", address); err == nil {
			defer silent.Close()
		}
	}
	began := time.Now()
	_, said, status, err := b.toolWith(40*time.Second, []string{"CULPRIT_LOAD_TOKEN=secret"},
		"load", "stream", address, "--for", "1s")
	if strings.Contains(said, "unknown command") || status == 2 {
		_, said, status, err = b.toolWith(40*time.Second, []string{"CULPRIT_LOAD_TOKEN=secret"},
			"load", address, "--for", "1s")
	}
	if err != nil || status != 0 {
		return "", failed(err, "a client: status %d: %s", status, said)
	}
	return fmt.Sprintf("a client is done after %.1f s", time.Since(began).Seconds()), nil
}

// bomb writes gzip that expands to size bytes of JSON.
func bomb(w io.Writer, size int) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = io.WriteString(z, `{"stats":[`)
	block := strings.Repeat(`{"ID":"a"},`, 100_000)
	for n := 0; n < size && err == nil; n += len(block) {
		_, err = io.WriteString(z, block)
	}
	_, last := io.WriteString(z, `{"ID":"b"}]}`)
	return errors.Join(err, last, z.Close())
}

// hostile serves HTTP on a loopback address until the end of the attack.
func hostile(handler http.HandlerFunc) (address string, end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.Serve(l) }() // it ends with an error
	return l.Addr().String(), func() { _ = s.Close() }, nil
}

func gzipServer(b *bench) (string, error) {
	var packed strings.Builder
	if err := bomb(&packed, 700<<20); err != nil {
		return "", err
	}
	address, end, err := hostile(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, packed.String()) // the client may go
	})
	if err != nil {
		return "", err
	}
	defer end()
	most := int64(0)
	for _, args := range [][]string{{"ps", "--at", "-2s", "--server"}, {"hosts"}, {"diagnose",
		"--at", "-2s", "--server"}, {"datasets", "--server"}} {
		c := b.grouped(append([]string{b.bin}, append(args, "http://"+address+"/?token=x")...)...)
		c.Stdout = io.Discard
		if args[0] == "hosts" {
			c.Args = append(c.Args, "1", "1")
		}
		if err := c.Start(); err != nil {
			return "", err
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		for end, running := time.Now().Add(30*time.Second), true; running; {
			select {
			case <-ended: // however: its memory counts
				running = false
			case <-time.After(10 * time.Millisecond):
				most = max(most, statusBytes(c.Process.Pid, "VmHWM:"))
			}
			if running && time.Now().After(end) {
				_ = c.Process.Kill() // it runs
				return "", fmt.Errorf("culprit %s does not end", args[0])
			}
		}
	}
	if most > 200e6 {
		return "", fmt.Errorf("a client takes %d MB", most/1e6)
	}
	return fmt.Sprintf("a client takes at most %d MB", most/1e6), nil
}

func plainToken(b *bench) (string, error) {
	const token = "feedfacefeedfacefeedfacefeedface"
	file := filepath.Join(b.dir, "far.log")
	c := exec.Command("ip", "netns", "exec", b.far, filepath.Join(b.dir, "bin", "attack"), "act",
		"listen", farAddress+":7410", file)
	if err := b.helper(c); err != nil {
		return "", err
	}
	time.Sleep(500 * time.Millisecond)
	address := "http://" + farAddress + ":7410/?token=" + token
	for _, args := range [][]string{{"ps", "--at", "-2s", "--server", address}, {"hosts", address,
		"1", "1"}} {
		if _, _, _, err := b.tool(20*time.Second, args...); err != nil {
			return "", err
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if strings.Contains(string(text), token) {
		return "", errors.New("the token was sent by plain HTTP")
	}
	// That the listener works.
	_, _, _, err = b.tool(20*time.Second, "ps", "--at", "-2s", "--server", address, "--insecure")
	text, err2 := os.ReadFile(file)
	if err = errors.Join(err, err2); err == nil && !strings.Contains(string(text), token) {
		err = errors.New("--insecure sends nothing: the attack has to be adapted")
	}
	return "not sent without --insecure", err
}

func redirected(b *bench) (string, error) {
	const token = "feedfacefeedfacefeedfacefeedface"
	got := make(chan string, 100)
	other, end, err := hostile(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case got <- r.URL.String() + " " + r.Header.Get("Authorization"):
		default:
		}
	})
	if err != nil {
		return "", err
	}
	defer end()
	_, port, _ := net.SplitHostPort(other)
	first, end2, err := hostile(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://localhost:"+port+r.URL.Path, http.StatusTemporaryRedirect)
	})
	if err != nil {
		return "", err
	}
	defer end2()
	if _, _, _, err := b.tool(20*time.Second, "ps", "--at", "-2s", "--server",
		"http://"+first+"/?token="+token); err != nil {
		return "", err
	}
	for range len(got) {
		if text := <-got; strings.Contains(text, token) {
			return "", fmt.Errorf("the other host gets the token")
		}
	}
	return "the token is not passed on", nil
}

// lines returns the lines of a text.
func lines(text string) (all []string) {
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		all = append(all, s.Text())
	}
	return all
}
