package receiver

import (
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// write writes a file of the test and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct{ address, want string }{
		{"https://host:9093", ""},
		{"http://host/path/#insecure&token-file=/x", ""},
		{"http://127.0.0.1:9093#user=a&password-file=/x", ""},
		{"https://h#ca-file=/a&cert-file=/b&key-file=/c&tenant=t&server-name=n", ""},
		{"http://h#server-name=n", "certificates need https"},
		{"host:9093", "it needs a scheme and a host"},
		{"ftp://host", "it needs a scheme and a host"},
		{"http://", "it needs a scheme and a host"},
		{"http://[::1", "it is not an address"},
		{"https://a:hunter2@host", "a password in an address"},
		{"https://host?token=hunter2", "an address has no query"},
		{"https://host#tokenfile=/x", `no option "tokenfile": did you mean token-file?`},
		{"https://host#zzzz=/x", "there are insecure, token-file"},
		{"https://host#token-file", "the option token-file needs one value"},
		{"https://host#insecure=yes", "the option insecure has no value"},
		{"https://host#tenant=a&tenant=b", "the option tenant needs one value"},
		{"https://host#user=a", "user and password-file belong together"},
		{"https://host#key-file=/x", "cert-file and key-file belong together"},
		{"https://host#user=a&password-file=/x&token-file=/y", "exclude each other"},
		{"http://10.0.0.9#token-file=/x", "without encryption"},
		{"http://10.0.0.9#user=a&password-file=/x", "without encryption"},
		{"http://h#ca-file=/x", "certificates need https"},
	} {
		t.Run(tt.address, func(t *testing.T) {
			err := Check(tt.address)
			if err == nil {
				err = errors.New("")
			}
			text := err.Error()
			if !strings.Contains(text, tt.want) || tt.want == "" && text != "" {
				t.Errorf("%q, want %q", text, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error has the secret: %v", err)
			}
		})
	}
}

// TestPost sends with each kind of credentials to a server with TLS of an authority of its own.
func TestPost(t *testing.T) {
	var header http.Header
	var path, query, body string
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		header, path, query, body = r.Header, r.URL.Path, r.URL.RawQuery, string(b)
	}))
	defer s.Close()
	ca := write(t, "ca", string(pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	secret := write(t, "secret", "  s3 cret\nmore\n")
	for _, tt := range []struct{ options, header, want string }{
		{"", "Authorization", ""},
		{"&token-file=" + secret, "Authorization", "Bearer s3 cret"},
		{"&user=ann&password-file=" + secret, "Authorization", "Basic YW5uOnMzIGNyZXQ="},
		{"&tenant=blue", "X-Scope-Orgid", "blue"},
		{"&tenant=blue", "X-More", "1"},
	} {
		target, err := Parse(s.URL+"/base/#ca-file="+ca+tt.options, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		err = target.Post(t.Context(), "/below?a=b%26c", []byte("text"), http.Header{"X-More": {"1"}})
		if err != nil || header.Get(tt.header) != tt.want || path != "/base/below" ||
			query != "a=b%26c" || body != "text" {
			t.Errorf("%s: %v, %s is %q, want %q; %s %s", tt.options, err, tt.header,
				header.Get(tt.header), tt.want, path, body)
		}
	}
	target, err := Parse(s.URL, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Post(t.Context(), "", nil, nil); err == nil || IsFinal(err) ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("without its authority: %v", err)
	}
}

// TestFiles shows the errors of files of secrets.
func TestFiles(t *testing.T) {
	for _, tt := range []struct{ options, want string }{
		{"token-file=/nowhere/token", "no such file"},
		{"token-file=" + t.TempDir(), "is no file of at most 64 kB"},
		{"token-file=" + write(t, "a", strings.Repeat("x", 65<<10)), "is no file of at most 64 kB"},
		{"token-file=" + write(t, "b", "\n \n"), "is empty"},
		{"token-file=" + write(t, "c", "a\x00b"), "is no text"},
		{"ca-file=" + write(t, "d", "hunter2"), "has no certificate in PEM"},
		{"cert-file=" + write(t, "e", "x") + "&key-file=" + write(t, "f", "y"), "PEM"},
	} {
		_, err := Parse("https://host#"+tt.options, time.Second)
		if err == nil || !strings.Contains(err.Error(), tt.want) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", tt.options, err, tt.want)
		}
	}
}

// TestReplies shows which answers are final, and the wait that a server asks for.
func TestReplies(t *testing.T) {
	for _, tt := range []struct {
		name, after string
		status      int
		final       bool
		wait        time.Duration
		text        string
	}{
		{"accepted", "", 202, false, 0, ""},
		{"rejected", "7", 400, true, 0, "400 Bad Request no ?[1m"},
		{"unknown path", "", 404, true, 0, "404 Not Found no ?[1m"},
		{"moved", "", 308, true, 0, "308 Permanent Redirect to http://elsewhere/: use that address"},
		{"slow down", "7", 429, false, 7 * time.Second, "429 Too Many Requests no ?[1m"},
		{"away", "100000", 503, false, 10 * time.Minute, "503 Service Unavailable no ?[1m"},
		{"broken", "soon", 500, false, 0, "500 Internal Server Error no ?[1m"},
		{"overflow", "99999999999999", 500, false, 10 * time.Minute, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reached := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				reached++
				w.Header().Set("Retry-After", tt.after)
				w.Header().Set("Location", "http://elsewhere/")
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, "no \x1b[1m\nsecond line "+strings.Repeat("x", 1<<20))
			}))
			defer s.Close()
			target, err := Parse(s.URL, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			err = target.Post(t.Context(), "", nil, nil)
			if (err == nil) != (tt.status == 202) || IsFinal(err) != tt.final || reached != 1 {
				t.Errorf("%v, final %v, %d requests", err, IsFinal(err), reached)
			}
			if err != nil && tt.text != "" && err.Error() != tt.text {
				t.Errorf("%q, want %q", err, tt.text)
			}
			if busy := (*Busy)(nil); errors.As(err, &busy) && busy.After != tt.wait {
				t.Errorf("wait %v, want %v", busy.After, tt.wait)
			}
		})
	}
}

// TestBackoff shows that the wait doubles up to its maximum, and that a server can ask for more.
func TestBackoff(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 6 * time.Second}
	for i, want := range []time.Duration{1, 2, 4, 6, 6} {
		got := b.Next(errors.New("away"))
		if want *= time.Second; got > want || got < want*3/4 {
			t.Errorf("wait %d is %v, want up to a quarter less than %v", i, got, want)
		}
	}
	if got := b.Next(&Busy{After: time.Minute}); got != time.Minute {
		t.Errorf("the server asked for a minute: %v", got)
	}
	b.Reset()
	if got := b.Next(errors.New("away")); got > time.Second {
		t.Errorf("after a success: %v", got)
	}
}

// TestFilesOfAddress lists the files that a server must read again when they change.
func TestFilesOfAddress(t *testing.T) {
	got := Files("https://h#user=u&password-file=/p&ca-file=/a&cert-file=/c&key-file=/k")
	if want := []string{"/p", "/a", "/c", "/k"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Files("https://h#token-file=/t"); !slices.Equal(got, []string{"/t"}) {
		t.Errorf("%q", got)
	}
	if got := Files("https://h#tokenfile=/t"); got != nil {
		t.Errorf("of an address with a mistake: %q", got)
	}
}
