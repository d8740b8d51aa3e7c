package engine

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/export/receiver"
	"culprit/heapbound"
	"culprit/measure"
)

// write writes a file for an option and returns its name.
func write(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestParseOptions(t *testing.T) {
	o, err := ParseOptions("http://e:9090", []string{"bearer-file=/b=c", "host-label=host"})
	want := Options{
		URL: "http://e:9090", HostLabel: "host", Options: receiver.Options{TokenFile: "/b=c"},
	}
	if err != nil || o != want {
		t.Errorf("%+v, %v, want %+v", o, err, want)
	}
	for _, tt := range []struct{ pair, want string }{
		{"token-fle=x", "did you mean token-file?"},
		{"zzz=x", "token-file, user, password-file, tenant, ca-file"},
		{"ca-file", "needs one value"},
		{"basic-file=", "needs one value"},
		{"=x", `no option ""`},
	} {
		if _, err := ParseOptions("", []string{tt.pair}); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.pair, err, tt.want)
		}
	}
	for _, address := range []string{"https://e#ca-file=b", "https://e#ca-file=b&token-file=/t"} {
		if _, err := ParseOptions(address, []string{"ca-file=a"}); err == nil {
			t.Errorf("%s: an option that is given twice was accepted", address)
		}
	}
	o, err = ParseOptions("http://e:9090/p#insecure&token-file=/t", []string{"host-label=host"})
	want = Options{
		URL: "http://e:9090/p", HostLabel: "host",
		Options: receiver.Options{Insecure: true, TokenFile: "/t"},
	}
	if err != nil || o != want {
		t.Errorf("%+v, %v, want %+v", o, err, want)
	}
}

func TestNewRefuses(t *testing.T) {
	secret := write(t, "hunter2\n")
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"no scheme", Options{URL: "engine:9090"}, "not the address"},
		{"a password in the address", Options{URL: "http://a:hunter2@e:9090"}, "password-file"},
		{"a query in the address", Options{URL: "http://e:9090/?x=hunter2"}, "contains a query"},
		{"a token without encryption", Options{URL: "http://e:9090", Options: receiver.Options{TokenFile: secret}}, "without encryption"},
		{"a tenant without encryption", Options{URL: "http://e:9090", HeaderFile: write(t, "X-Scope-OrgID: hunter2")}, "without encryption"},
		{"token and password", Options{URL: "https://e", Options: receiver.Options{TokenFile: secret}, BasicFile: secret}, "excludes user and token-file"},
		{"no name", Options{URL: "https://e", BasicFile: secret}, "NAME:PASSWORD"},
		{"no file", Options{URL: "https://e", Options: receiver.Options{TokenFile: "/nowhere"}}, "no such file"},
		{"an empty token", Options{URL: "https://e", Options: receiver.Options{TokenFile: write(t, " \n")}}, "is empty"},
		{"a token that is no text", Options{URL: "https://e", Options: receiver.Options{TokenFile: write(t, "hunter2\x01b")}}, "is no text"},
		{"a header without colon", Options{URL: "https://e", HeaderFile: write(t, "# tenant\nhunter2\n")}, "line 2"},
		{"a header with a space", Options{URL: "https://e", HeaderFile: write(t, "X Y: hunter2")}, "not the name"},
		{"a header of the protocol", Options{URL: "https://e", HeaderFile: write(t, "host: a")}, "cannot be set"},
		{"no certificate", Options{URL: "https://e", Options: receiver.Options{CAFile: secret}}, "no certificate"},
		{"a long file", Options{URL: "https://e", Options: receiver.Options{TokenFile: write(t, strings.Repeat("x", maxSecretFile+1))}}, "at most 64 kB"},
		{"a label that is none", Options{URL: "https://e", HostLabel: `a"b`}, "not the name of a label"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error contains the secret: %v", err)
			}
		})
	}
}

// ask asks an engine for one vector.
func ask(ctx context.Context, t testing.TB, o Options) error {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.vector(ctx, "up", measure.Time(1e18))
	return err
}

// TestBadEngines asks engines that are away, refuse, redirect, or answer rubbish.
func TestBadEngines(t *testing.T) {
	member := func(text []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(text)
		_ = z.Close() // a buffer takes all
		return b.Bytes()
	}
	begin, block := member([]byte(`{"status":"success","data":"`)),
		member(bytes.Repeat([]byte("x"), 1<<20))
	endless := func(w http.ResponseWriter) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(begin)
		for range 2 * maxBody >> 20 { // compressed once: only the client's time counts
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
		want   string
	}{
		{"HTML", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "not that of Prometheus's API"},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, "not that of Prometheus's API"},
		{"cut JSON", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[{"met`)
		}, "not that of Prometheus's API"},
		{"a cut body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"status":"succ`)
		}, "unexpected EOF"},
		{"another type", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`)
		}, "with a scalar"},
		{"an error of the query", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(422)
			fmt.Fprint(w, `{"status":"error","errorType":"execution","error":"too many samples"}`)
		}, "too many samples"},
		{"an error with escapes", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			fmt.Fprint(w, `{"status":"error","errorType":"bad_data","error":"\u001b[31mred"}`)
		}, "red"},
		{"no API here", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, "no /api/v1/query below"},
		{"no rights", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "token-file"},
		{"broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "500"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/prometheus/api/v1/query", http.StatusFound)
		}, "use that address"},
		{"an endless answer", func(w http.ResponseWriter, _ *http.Request) { endless(w) }, "larger than 64 MB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(tt.answer))
			defer s.Close()
			err := ask(t.Context(), t, Options{URL: s.URL})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("the error has control characters: %q", err)
			}
		})
	}
	t.Run("away", func(t *testing.T) {
		s := httptest.NewServer(nil)
		s.Close()
		if err := ask(t.Context(), t, Options{URL: s.URL}); err == nil ||
			!strings.Contains(err.Error(), "connection refused") {
			t.Error(err)
		}
	})
	t.Run("slow", func(t *testing.T) {
		over := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(
			func(http.ResponseWriter, *http.Request) { <-over },
		))
		defer s.Close()
		defer close(over)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := ask(ctx, t, Options{URL: s.URL}); err == nil ||
			!strings.Contains(err.Error(), "did not answer within") {
			t.Error(err)
		}
	})
}

// TestSecrets checks what an engine gets: token, name and password, headers; and that an unknown
// certificate is refused until its authority is given.
func TestSecrets(t *testing.T) {
	var got http.Header
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
	})
	s := httptest.NewTLSServer(answer)
	defer s.Close()
	if err := ask(t.Context(), t, Options{URL: s.URL}); err == nil ||
		!strings.Contains(err.Error(), "ca-file") {
		t.Errorf("a certificate of nobody: %v", err)
	}
	ca := write(t, string(pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw},
	)))
	for _, tt := range []struct {
		name         string
		o            Options
		header, want string
	}{
		{"bearer", Options{Options: receiver.Options{TokenFile: write(t, "abc\n")}}, "Authorization", "Bearer abc"},
		{"basic", Options{BasicFile: write(t, "joe:pass:word\n")}, "Authorization", "Basic am9lOnBhc3M6d29yZA=="},
		{"user", Options{Options: receiver.Options{User: "joe", PasswordFile: write(t, "p\n")}}, "Authorization", "Basic am9lOnA="},
		{"tenant of an option", Options{Options: receiver.Options{Tenant: "b"}}, "X-Scope-Orgid", "b"},
		{"tenant", Options{HeaderFile: write(t, "# Mimir\nX-Scope-OrgID: team-a\n")}, "X-Scope-Orgid", "team-a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.URL, tt.o.CAFile = s.URL, ca
			if err := ask(t.Context(), t, tt.o); err != nil {
				t.Fatal(err)
			}
			if got.Get(tt.header) != tt.want {
				t.Errorf("%s: %q, want %q", tt.header, got.Get(tt.header), tt.want)
			}
		})
	}
}

func TestClockDifference(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1e9, 0).Add(time.Duration(s * 1e9)) }
	for _, tt := range []struct {
		name                  string
		clock, sent, received float64
		want                  time.Duration
	}{
		{"equal", 10, 10.2, 10.4, 0},
		{"equal over the edge of a second", 10, 9.9, 10.1, 0},
		{"it was the last second", 10, 10.9, 11.2, 0},
		{"ahead", 13, 10.2, 10.4, 2600 * time.Millisecond},
		{"behind", 7, 10.2, 10.4, -2200 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := clockDifference(at(tt.clock), at(tt.sent), at(tt.received))
			if got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// FuzzAnswer answers a query with arbitrary bytes.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":` +
		`{"__name__":"a","cpu":"0"},"values":[[15,"1"],[30,"4"]]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},` +
		`"values":[[-1e30,"NaN"],[30,"+Inf"],[30,"1e308"]]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},` +
		`"histograms":[[15,{"count":"1","sum":"2","buckets":[[0,"1","2","1"]]}]]}]}}`))
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(body) // the client may be gone
	}))
	f.Cleanup(s.Close)
	c, err := New(Options{URL: s.URL})
	if err != nil {
		f.Fatal(err)
	}
	st := measure.Stat{
		ID: "cpu.time", Kind: measure.Delta, Unit: measure.Nanoseconds,
		Fields: []measure.Field{{Name: "cpu"}, {Name: "mode"}},
	}
	h := &Host{client: c, name: "a", stats: map[measure.StatID]*measure.Stat{st.ID: &st}}
	heapbound.Fuzz(f, func(t *testing.T, answer []byte) {
		body = answer
		a, err := h.Ask(t.Context(), measure.Query{
			Stat: st.ID, By: []string{"cpu"}, Step: second,
			Over: measure.Interval{Start: measure.Time(second), End: measure.Time(60 * second)},
		})
		if err != nil {
			if errors.Is(err, measure.ErrUnsupported) {
				t.Error(err)
			}
			return
		}
		for i := range a.Series {
			if len(a.Series[i].Values) != len(a.Elapsed) {
				t.Errorf("%d values in %d cells", len(a.Series[i].Values), len(a.Elapsed))
			}
		}
	})
}
