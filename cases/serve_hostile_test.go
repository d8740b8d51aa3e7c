package cases

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mostServed is what a server may hold of memory at its worst. Its heap is collected more eagerly
// from 400 MB on.
const mostServed = 450e6

// forked reads how many processes and threads the kernel has made.
func forked() float64 {
	v, _ := keyed("/proc/stat", "processes")()
	return v
}

// serveBurst: five thousand processes that live for a millisecond and two hundred interfaces that
// come and go. Memory is bounded, the kernel's count of processes is reported, and no number is one
// that can't be.
func serveBurst(t *testing.T, l *Lab, bin string) {
	h := l.Host("box")
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	r := serve(t, l, bin, filepath.Join(l.Dir(), "record"), nil)
	r.until(time.Now().Add(2 * time.Second))
	before := r.mustHealth().RSS
	outer, start := forked(), time.Now().Truncate(time.Second).Add(2*time.Second)
	time.Sleep(time.Until(start.Add(200 * time.Millisecond))) // the reading at start is done
	inner := forked()

	const processes, interfaces = 5000, 200
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := output(
				t.Context(),
				l.Command(
					"sh",
					"-c",
					fmt.Sprintf(
						"i=0; while [ $i -lt %d ]; do /bin/true; i=$((i+1)); done", processes/2,
					),
				),
			)
			done <- err
		}()
	}
	var add, del bytes.Buffer
	for i := range interfaces / 2 {
		fmt.Fprintf(&add, "link add a%d type veth peer name b%d\nlink set a%d up\n", i, i, i)
		fmt.Fprintf(&del, "link del a%d\n", i)
	}
	batch := func(b *bytes.Buffer) {
		c := l.Command("ip", "-n", h.NS, "-batch", "-")
		c.Stdin = b
		if _, err := output(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	batch(&add)
	time.Sleep(2500 * time.Millisecond) // they are in two readings
	batch(&del)
	most := 0.
	for n := 0; n < 2; {
		select {
		case err := <-done:
			if n++; err != nil {
				t.Error(err)
			}
		case <-time.After(200 * time.Millisecond):
			if h, err := r.health(); err == nil { // it may have to wait for a CPU
				most = max(most, h.RSS)
			}
		}
	}
	made := forked() - inner
	end := time.Now().Truncate(time.Second).Add(2 * time.Second)
	r.until(end)
	whole := forked() - outer
	most = max(most, r.mustHealth().RSS)

	a := r.mustAsk("sched.forks", start, end)
	if got := math.Round(a.amount()); got < made || got > whole || made < processes {
		t.Errorf("%.0f processes are reported, the kernel made %.0f to %.0f", got, made, whole)
	}
	devices := r.mustAsk("net.device.bytes by netns,device", start, end)
	seen := 0
	for _, s := range devices.Series {
		if s.Key[0] == h.NS {
			seen++
		}
	}
	if seen < interfaces {
		t.Errorf("of %d interfaces %d are in the record", interfaces, seen)
	}
	t.Logf(
		"%.0f processes reported, %.0f to %.0f made; %d interfaces; resident %.0f MB before, %.0f MB at most",
		a.amount(), made, whole, seen, before/1e6, most/1e6,
	)
	if most > mostServed {
		t.Errorf("the server held %.0f MB", most/1e6)
	}
	cells, rows := r.absurd(start, end)
	t.Logf("looked at %d cells of %d rows", cells, rows)
}

// absurd looks at all that was recorded of a time for numbers that can't be.
func (r *recorder) absurd(start, end time.Time) (cells, rows int) {
	r.t.Helper()
	var list struct {
		Datasets []struct{ Sentence, Kind, Unit string }
	}
	if err := r.get("api/datasets", &list); err != nil || len(list.Datasets) < 20 {
		r.t.Fatalf("%d datasets: %v", len(list.Datasets), err)
	}
	cpus := float64(runtime.NumCPU())
	for _, d := range list.Datasets {
		a, err := r.ask(d.Sentence, start, end)
		if err != nil {
			r.t.Errorf("%s: %v", d.Sentence, err)
			continue
		}
		rows += len(a.Series)
		for _, s := range a.Series {
			for c, v := range s.Values {
				if v == nil {
					continue
				}
				cells++
				most := 1e15
				switch {
				case strings.HasPrefix(d.Sentence, "cpu.time"),
					strings.HasPrefix(d.Sentence, "process.cpu"),
					strings.HasPrefix(d.Sentence, "process.short"):
					most = cpus * 1.1
				case d.Sentence == "system.boot", d.Sentence == "server.started",
					d.Sentence == "server.tick": // times since 1970
					most = 2e18
				case d.Unit == "B" && d.Kind == "delta":
					most = 1e11
				case d.Unit == "event" && d.Kind == "delta":
					most = 1e9
				}
				if math.IsInf(*v, 0) || *v > most ||
					*v < 0 && d.Kind == "delta" && !strings.HasPrefix(d.Sentence, "cache.growth") {
					r.t.Errorf("%s, %v at %v: %v %s", d.Sentence, s.Key, a.at(c), *v, d.Unit)
				}
			}
		}
	}
	return cells, rows
}

// raw sends bytes to the server and returns the first line of the answer; "" when there is none.
func (r *recorder) raw(request string) string {
	r.t.Helper()
	u, err := url.Parse(r.base)
	if err != nil {
		r.t.Fatal(err)
	}
	c, err := net.DialTimeout("tcp", u.Host, 5*time.Second)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // on a socket just made
	_, _ = io.WriteString(c, request)                   // it may be cut off before all is sent
	b, _ := io.ReadAll(io.LimitReader(c, 1<<20))
	if bytes.Contains(b, []byte(r.token)) {
		r.t.Errorf("the token is in the answer to %.100q", request)
	}
	line, _, _ := strings.Cut(string(b), "\r\n")
	return line
}

// serveHostile: strangers are turned away, each in its way, and three hundred viewers that never
// read hold up nothing.
func serveHostile(t *testing.T, l *Lab, bin string) {
	r := serve(t, l, bin, filepath.Join(l.Dir(), "record"), nil)
	start := time.Now().Truncate(time.Second).Add(3 * time.Second)
	r.until(start)
	u, err := url.Parse(r.base)
	if err != nil {
		t.Fatal(err)
	}
	right := "Authorization: Bearer " + r.token + "\r\n"
	request := func(line, host, more string) string {
		return line + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + more + "\r\n"
	}
	for _, c := range []struct{ what, request, want string }{
		{"the right token", request("GET /api/health", u.Host, right), "200"},
		{"no token", request("GET /api/health", u.Host, ""), "401"},
		{"a wrong token", request("GET /api/health", u.Host, "Authorization: Bearer "+strings.Repeat("0", len(r.token))+"\r\n"), "401"},
		{"a beginning of the token", request("GET /api/health", u.Host, "Authorization: Bearer "+r.token[:10]+"\r\n"), "401"},
		{"a wrong token in the address", request("GET /?token=0123456789", u.Host, ""), "401"},
		{"a wrong cookie", request("GET /api/health", u.Host, "Cookie: culprit=x; culprit_token=y\r\n"), "401"},
		{"another's name", request("GET /api/health", "evil.example", right), "421"},
		{"another's name, no token", request("GET /api/health", "evil.example", ""), "421"},
		{"another's page", request("GET /api/health", u.Host, right+"Origin: http://evil.example\r\n"), "403"},
		{"another's script", request("GET /api/health", u.Host, right+"Sec-Fetch-Site: cross-site\r\n"), "403"},
		{"a change without the header", request("POST /api/datasets", u.Host, right+"Content-Type: application/json\r\nContent-Length: 2\r\n") + "{}", "403"},
		{"a file of the machine", request("GET /../../../../etc/passwd", u.Host, right), "307"}, // to /etc/passwd
		{"a file of the machine, written otherwise", request("GET /%2e%2e/%2e%2e/%2e%2e/etc/passwd", u.Host, right), "404"},
		{"the token's file", request("GET /token", u.Host, right), "404"},
		{"a long header", request("GET /api/health", u.Host, right+"X: "+strings.Repeat("x", 1<<20)+"\r\n"), "431"},
		{"a long sentence", request("GET /api/ask?q="+strings.Repeat("x", 10000), u.Host, right), "400"},
		{"no HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"},
	} {
		if line := r.raw(c.request); !strings.HasPrefix(line, "HTTP/1.1 "+c.want) &&
			!strings.HasPrefix(line, "HTTP/1.0 "+c.want) {
			t.Errorf("%s: %q, not %s", c.what, line, c.want)
		}
	}

	before := r.mustHealth()
	const viewers = 300
	var all []net.Conn
	defer func() {
		for _, c := range all {
			_ = c.Close() // whatever became of it
		}
	}()
	live := "GET /api/live?" + url.Values{
		"q": {
			"process.cpu by pid,process,mode",
			"process.state by pid,process,state",
			"net.device.bytes by netns,device,direction",
		},
	}.Encode()
	small := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { // full soon; the usual size is as well
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
		})
	}}
	for i := range viewers + 100 {
		c, err := small.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
		if i >= viewers { // and some that never come to the end of their request
			_, err = io.WriteString(c, "GET /api/health HTTP/1.1\r\nHost: "+u.Host+"\r\nX: ")
		} else {
			_, err = io.WriteString(c, request(live, u.Host, right))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r.eventually("viewers are counted", 5*time.Second, func() error {
		if h := r.mustHealth(); h.Viewers < viewers {
			return fmt.Errorf("there are %d", h.Viewers)
		}
		return nil
	})
	watched := time.Now()
	r.until(watched.Add(8 * time.Second))
	h := r.mustHealth()
	t.Logf(
		"%d viewers that do not read: resident %.0f MB, and %.0f MB before; %d ticks late",
		h.Viewers, h.RSS/1e6, before.RSS/1e6, h.Late-before.Late,
	)
	if h.RSS > mostServed {
		t.Errorf("the server holds %.0f MB", h.RSS/1e6)
	}
	// Emulated kernels and other servers run beside it and delay some ticks; a recorder that waits
	// for viewers is late each second.
	if late := h.Late - before.Late; late > 5 {
		t.Errorf("%d ticks were late", late)
	}
	r.everySecond("sched.forks", start, time.Now().Add(-time.Second))
	for _, c := range all {
		_ = c.Close() // as above
	}
	r.eventually("viewers are gone", 20*time.Second, func() error {
		if h := r.mustHealth(); h.Viewers > 0 {
			return fmt.Errorf("there are %d", h.Viewers)
		}
		return nil
	})
}

// selfSigned writes a certificate for 127.0.0.1 and its key, and returns a pool that trusts it.
func selfSigned(t *testing.T, dir string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "culprit's lab"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:     []string{"lab.example"},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	whole := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b})
	if err := errors.Join(
		os.WriteFile(cert, whole, 0o600), os.WriteFile(key, private, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(whole)
	return cert, key, pool
}

// serveTLS: where others may reach it it speaks TLS or not at all.
func serveTLS(t *testing.T, l *Lab, bin string) {
	cert, key, pool := selfSigned(t, l.Dir())
	dir := filepath.Join(l.Dir(), "record")
	for _, c := range []struct {
		what  string
		args  []string
		words string
	}{
		{"all addresses", []string{"--listen", "0.0.0.0:0"}, "--tls-cert"},
		{"all addresses of version 6", []string{"--listen", "[::]:0"}, "--tls-cert"},
		{"no address", []string{"--listen", ":0"}, "--tls-cert"},
		{"somebody's address", []string{"--listen", "192.0.2.1:7410"}, "--tls-cert"},
		{"a key that is none", []string{"--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", cert}, "--tls-key"},
		{"a certificate that isn't there", []string{"--listen", "0.0.0.0:0", "--tls-cert", cert + "x", "--tls-key", key}, cert + "x"},
	} {
		s := serveIn(t, l, bin, dir, nil, c.args...)
		if status, said := s.end(20*time.Second), s.text(); status != 1 ||
			!strings.Contains(said, c.words) ||
			strings.Count(strings.TrimSpace(said), "\n") > 0 {
			t.Errorf("%s: status %d, %s", c.what, status, said)
		}
	}

	r := serveIn(t, l, bin, dir, nil, "--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key)
	r.web.Transport = &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool},
		ForceAttemptHTTP2: true,
	}
	r.eventually("the address is said", 20*time.Second, func() error {
		for s := bufio.NewScanner(strings.NewReader(r.text())); s.Scan(); {
			if base, token, ok := strings.Cut(strings.TrimSpace(s.Text()), "?token="); ok {
				u, err := url.Parse(base)
				if err != nil || u.Scheme != "https" {
					return fmt.Errorf("the address is %s: %w", base, err)
				}
				// Its name may not be known here.
				r.base, r.token = "https://127.0.0.1:"+u.Port()+"/", token
				return nil
			}
		}
		return errors.New("not yet")
	})
	r.until(time.Now().Add(time.Second))
	r.mustHealth()
	if _, err := (&http.Client{Timeout: 5 * time.Second}).Get(r.base); err == nil ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("who does not trust the certificate gets %v", err)
	}
	if line := r.raw("GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + r.token + "\r\n\r\n"); !strings.Contains(
		line, "400",
	) {
		t.Errorf("without TLS the answer is %q", line)
	}
	token := r.token
	r.token = strings.Repeat("f", len(token))
	if _, err := r.health(); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a wrong token: %v", err)
	}
	r.token = token
}

// serveOrdinary: without any right it records in the user's own directory what that user may see,
// and says what is not.
func serveOrdinary(t *testing.T, l *Lab, bin string) {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("needs: tool setpriv")
	}
	bin = forAll(t, l, bin)
	home := filepath.Join(l.Dir(), "home")
	if err := errors.Join(os.Mkdir(home, 0o755), os.Chown(home, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	before := append(
		[]string{"env", "-u", "XDG_STATE_HOME", "-u", "CULPRIT_DIR", "HOME=" + home},
		asNobody()...)
	r := serve(t, l, bin, "", before)
	dir := filepath.Join(home, ".local", "state", "culprit")
	if !strings.Contains(r.text(), "records in "+dir) {
		t.Errorf("it says %s", r.text())
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its directory is %v: %v", info, err)
	}
	start := time.Now()
	r.until(start.Add(2 * time.Second))
	from, to := start.Truncate(time.Second).
		Add(time.Second),
		start.Truncate(time.Second).
			Add(2*time.Second)
	for sentence, word := range map[string]string{
		"net.device.bytes by netns,device,direction": "", // of its own namespace, which anybody may see
		"cpu.time by mode":                           "",
		"process.cpu by process":                     "",
		"process.io by process,direction":            "CAP_SYS_PTRACE",
		"tcp.flow.bytes by process":                  "CAP_SYS_PTRACE",
	} {
		a := r.mustAsk(sentence, from, to)
		if notes := strings.Join(a.Notes, "; "); a.measured() != 1 ||
			len(a.Series) == 0 && word == "" ||
			!strings.Contains(notes, word) {
			t.Errorf("%s: %d rows, notes %q", sentence, len(a.Series), notes)
		}
	}
	// The page, as a browser gets it: the link, then a cookie.
	cookies, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Timeout: 10 * time.Second, Jar: cookies}
	a, err := browser.Get(r.base + "?token=" + r.token)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(a.Body)
	a.Body.Close()
	if err != nil || a.StatusCode != http.StatusOK || !bytes.Contains(page, []byte("<html")) ||
		strings.Contains(a.Request.URL.String(), "token") {
		t.Errorf("the page: %s at %s, %.200s: %v", a.Status, a.Request.URL, page, err)
	}
	if a, err = browser.Get(r.base + "api/health"); err != nil || a.StatusCode != http.StatusOK {
		t.Errorf("with the page's cookie: %v, %v", a, err)
	} else {
		a.Body.Close()
	}
	// The command line, as that user, who has the socket.
	n := append(before[:len(before):len(before)], bin, "nic", "--at", stamp(to))
	out, said, status := look(t, l, n[0], dir, n[1:]...)
	if status != 0 || !strings.Contains(out, "lo") || strings.Contains(said, "no server") {
		t.Errorf("nic: status %d, %s%s", status, out, said)
	}
	if h := r.mustHealth(); len(h.Trouble) > 0 {
		t.Errorf("trouble is %v", h.Trouble)
	}
}
