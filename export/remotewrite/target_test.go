package remotewrite

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// TestMistakesInTargets checks that each mistake is named with its field, and that no message
// contains a secret.
func TestMistakesInTargets(t *testing.T) {
	good := Target{URL: "https://host/api/v1/write"}
	if err := good.Check(); err != nil || good.Name != "host" || good.Job != "culprit" ||
		good.Interval != 15*measure.Second || good.Histograms != Native {
		t.Fatalf("%+v, %v", good, err)
	}
	for name, tt := range map[string]struct {
		change func(*Target)
		field  string
	}{
		"no address":         {func(t *Target) { t.URL = "" }, "url"},
		"no scheme":          {func(t *Target) { t.URL = "s3cret:9090" }, "url"},
		"another scheme":     {func(t *Target) { t.URL = "ftp://x/" }, "url"},
		"no host":            {func(t *Target) { t.URL = "http://" }, "url"},
		"no URL":             {func(t *Target) { t.URL = "http://a b/" }, "url"},
		"interval":           {func(t *Target) { t.Interval = 7 * measure.Second }, "interval"},
		"short interval":     {func(t *Target) { t.Interval = measure.Millisecond }, "interval"},
		"long interval":      {func(t *Target) { t.Interval = 2 * measure.Minute }, "interval"},
		"name":               {func(t *Target) { t.Name = "../x" }, "name"},
		"histograms":         {func(t *Target) { t.Histograms = "clasic" }, "histograms"},
		"header's name":      {func(t *Target) { t.Headers = map[string]string{"a b": "s3cret"} }, "headers"},
		"header's value":     {func(t *Target) { t.Headers = map[string]string{"A": "s3cret\r\nB: c"} }, "headers"},
		"authorization":      {func(t *Target) { t.Headers = map[string]string{"AUTHORIZATION": "s3cret"} }, "headers"},
		"its own header":     {func(t *Target) { t.Headers = map[string]string{"content-type": "a"} }, "headers"},
		"label":              {func(t *Target) { t.ExternalLabels = map[string]string{"a-b": "c"} }, "external_labels"},
		"reserved label":     {func(t *Target) { t.ExternalLabels = map[string]string{"__name__": "c"} }, "external_labels"},
		"le":                 {func(t *Target) { t.ExternalLabels = map[string]string{"le": "1"} }, "external_labels"},
		"instance":           {func(t *Target) { t.ExternalLabels = map[string]string{"instance": "1"} }, "external_labels"},
		"no password":        {func(t *Target) { t.BasicAuth.Username = "me" }, "basic_auth"},
		"no name":            {func(t *Target) { t.BasicAuth.PasswordFile = "/p" }, "basic_auth"},
		"two secrets":        {func(t *Target) { t.BasicAuth = BasicAuth{"a", "b"}; t.Token = "s3cret" }, "basic_auth"},
		"password and token": {func(t *Target) { t.URL = "https://a:s3cret@h/"; t.BearerTokenFile = "f" }, "basic_auth"},
		"two tokens":         {func(t *Target) { t.Token = "s3cret"; t.BearerTokenFile = "f" }, "bearer_token_file"},
		"no key":             {func(t *Target) { t.TLS.CertFile = "c" }, "tls"},
		"no TLS":             {func(t *Target) { t.URL = "http://localhost/"; t.TLS.CAFile = "c" }, "tls"},
		"token by http":      {func(t *Target) { t.URL = "http://host/"; t.Token = "s3cret" }, "url"},
		"password by http":   {func(t *Target) { t.URL = "http://a:s3cret@host/" }, "url"},
	} {
		t.Run(name, func(t *testing.T) {
			one := good
			tt.change(&one)
			err := one.Check()
			var fault *Fault
			if !errors.As(err, &fault) || fault.Field != tt.field {
				t.Fatalf("%v, want a mistake in %s", err, tt.field)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v has the secret", err)
			}
		})
	}
	insecure := Target{URL: "http://a:b@host/#insecure"}
	if err := insecure.Check(); err != nil {
		t.Error(err)
	}
	two := []Target{good, {URL: "https://host/v2"}, {URL: "https://host/v2", Name: "host"}}
	two[0].Name = ""
	if err := CheckAll(two); err == nil || !strings.Contains(err.Error(), `"host" is used twice`) ||
		two[1].Name != "host-2" {
		t.Errorf("%v, %q", err, two[1].Name)
	}
}

// TestOptionsOfAddress: options after the # of an address replace the fields of the target, and
// leave those of other targets, which share its headers.
func TestOptionsOfAddress(t *testing.T) {
	shared := map[string]string{"x-scope-orgid": "old", "X-Other": "1"}
	a := Target{
		URL:     "https://host/w#user=u&password-file=/p&tenant=new&ca-file=/ca&server-name=n",
		Headers: shared, BearerTokenFile: "/token", TLS: TLS{CAFile: "/x", CertFile: "/c", KeyFile: "/k"},
	}
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	if a.URL != "https://host/w" || a.BearerTokenFile != "" ||
		a.BasicAuth != (BasicAuth{"u", "/p"}) ||
		a.TLS != (TLS{CAFile: "/ca", CertFile: "/c", KeyFile: "/k", ServerName: "n"}) ||
		!maps.Equal(a.Headers, map[string]string{"X-Scope-OrgID": "new", "X-Other": "1"}) {
		t.Errorf("%+v", a)
	}
	if got := a.Files(); !slices.Equal(got, []string{"/p", "/ca", "/c", "/k"}) {
		t.Errorf("files %q", got)
	}
	if shared["x-scope-orgid"] != "old" {
		t.Errorf("the headers of all targets are %v", shared)
	}
	plain := Target{URL: "http://host/w#insecure&token-file=/t"}
	for range 2 { // a target may be checked again
		if err := plain.Check(); err != nil || plain.BearerTokenFile != "/t" {
			t.Errorf("%v, %+v", err, plain)
		}
	}
	for url, want := range map[string]string{
		"http://host/w#token-file=/t":   "without encryption",
		"https://host/w#token=/t":       "no option \"token\"",
		"https://host/w#cert-file=/t":   "belong together",
		"http://localhost/w#ca-file=/t": "need https",
	} {
		one := Target{URL: url}
		var fault *Fault
		if err := one.Check(); !errors.As(err, &fault) || fault.Field != "url" ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

// authority makes certificates in files.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.issue("ca", nil)
	return a
}

// issue writes NAME.pem and NAME.key, for the name NAME and 127.0.0.1.
func (a *authority) issue(name string, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: by == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	a.write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	if c, err = x509.ParseCertificate(der); err != nil {
		a.t.Fatal(err)
	}
	return c, key
}

// write writes a file and returns its path.
func (a *authority) write(name string, b []byte) string {
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// open opens a target.
func open(t *testing.T, target Target) *Receiver {
	t.Helper()
	if err := target.Check(); err != nil {
		t.Fatal(err)
	}
	r, err := target.Open("box", "1.2")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCertificates checks which servers and clients are accepted, by TLS of a real server.
func TestCertificates(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	a.issue("receiver", a)
	a.issue("client", a)
	other.issue("client", other)
	pair, err := tls.LoadX509KeyPair(a.path("receiver.pem"), a.path("receiver.key"))
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients,
		ClientAuth: tls.RequireAndVerifyClientCert,
	}
	s.Config.ErrorLog = nil
	s.StartTLS()
	defer s.Close()
	mine := TLS{
		CAFile: a.path("ca.pem"), CertFile: a.path("client.pem"), KeyFile: a.path("client.key"),
		ServerName: "receiver",
	}
	for name, tt := range map[string]struct {
		change func(*TLS)
		want   string // in the error; "": none
	}{
		"all right":         {func(*TLS) {}, ""},
		"no CA":             {func(c *TLS) { c.CAFile = "" }, "give the file of its CA"},
		"another CA":        {func(c *TLS) { c.CAFile = other.path("ca.pem") }, "give the file of its CA"},
		"another name":      {func(c *TLS) { c.ServerName = "x" }, "give the name in its certificate"},
		"no certificate":    {func(c *TLS) { c.CertFile, c.KeyFile = "", "" }, "certificate required"},
		"of another CA":     {func(c *TLS) { c.CertFile, c.KeyFile = other.path("client.pem"), other.path("client.key") }, "certificate"},
		"key does not fit":  {func(c *TLS) { c.KeyFile = a.path("ca.key") }, "tls.cert_file"},
		"no PEM":            {func(c *TLS) { c.CAFile = a.write("x", []byte("x")) }, "no certificate in PEM"},
		"missing file":      {func(c *TLS) { c.CAFile = "/no/such" }, "tls.ca_file: open /no/such"},
		"not a file":        {func(c *TLS) { c.CAFile = a.dir }, "is a directory"},
		"larger than a MiB": {func(c *TLS) { c.CAFile = a.write("big", make([]byte, 2<<20)) }, "larger"},
	} {
		t.Run(name, func(t *testing.T) {
			target := Target{URL: s.URL, TLS: mine}
			tt.change(&target.TLS)
			if err := target.Check(); err != nil {
				t.Fatal(err)
			}
			r, err := target.Open("box", "1.2")
			if err == nil {
				_, err = r.send(t.Context(), nil)
			}
			var no *rejection
			if (err == nil) != (tt.want == "") || errors.As(err, &no) ||
				err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestSecretsAreSent checks what a receiver gets, and which files are refused.
func TestSecretsAreSent(t *testing.T) {
	a := &authority{t: t, dir: t.TempDir()}
	r, to := receives(t)
	for name, tt := range map[string]struct {
		change func(*Target)
		want   string
	}{
		"a token of a file":       {func(t *Target) { t.BearerTokenFile = a.write("t", []byte(" s3cret\n")) }, "Bearer s3cret"},
		"a token":                 {func(t *Target) { t.Token = "s3cret" }, "Bearer s3cret"},
		"a password of a file":    {func(t *Target) { t.BasicAuth = BasicAuth{"me", a.write("p", []byte("s3c:ret"))} }, "Basic bWU6czNjOnJldA=="},
		"a password of the URL":   {func(t *Target) { t.URL = strings.Replace(t.URL, "//", "//me:s3cret@", 1) }, "Basic bWU6czNjcmV0"},
		"an empty file":           {func(t *Target) { t.BearerTokenFile = a.write("e", []byte(" \n")) }, "bearer_token_file: " + a.path("e") + " is empty"},
		"a file with two lines":   {func(t *Target) { t.BearerTokenFile = a.write("2", []byte("a\nb")) }, "more than one line"},
		"a file that is missing":  {func(t *Target) { t.BasicAuth = BasicAuth{"me", "/no"} }, "basic_auth.password_file: open /no"},
		"a device without an end": {func(t *Target) { t.BearerTokenFile = "/dev/zero" }, "larger than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			target := Target{URL: to, Headers: map[string]string{"X-Scope-OrgID": "tenant"}}
			tt.change(&target)
			if err := target.Check(); err != nil {
				t.Fatal(err)
			}
			got, err := target.Open("box", "1.2")
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3c") {
					t.Errorf("%v, want %q", err, tt.want)
				}
				return
			}
			if _, err := got.send(t.Context(), []byte{0}); err != nil {
				t.Fatal(err)
			}
			if r.auth != tt.want || r.header.Get("X-Scope-OrgID") != "tenant" ||
				r.header.Get("User-Agent") != "culprit/1.2" {
				t.Errorf("%q, %v", r.auth, r.header)
			}
		})
	}
}

// TestAnswers checks what each answer of a receiver means: accepted, rejected, or retried.
func TestAnswers(t *testing.T) {
	const accepted, rejected, retried = "accepted", "rejected", "retried"
	page := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<html>") //nolint:errcheck // a test
	}
	status := func(code int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/stolen")
			w.Header().Set("Retry-After", "7")
			http.Error(w, "s\x1b[31mo\xff\nand more", code)
		}
	}
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter)
		want   string
		text   string
	}{
		"200":        {func(http.ResponseWriter) {}, accepted, ""},
		"204":        {func(w http.ResponseWriter) { w.WriteHeader(204) }, accepted, ""},
		"a web page": {page, retried, "web page"},
		"302":        {status(302), retried, "redirects are not followed"},
		"400":        {status(400), rejected, "400 Bad Request s"},
		"401":        {status(401), retried, "check the token"},
		"403":        {status(403), retried, "check the token"},
		"404":        {status(404), retried, "check the address"},
		"405":        {status(405), retried, "check the address"},
		"408":        {status(408), retried, "408"},
		"413":        {status(413), rejected, "413"},
		"422":        {status(422), rejected, "422"},
		"429":        {status(429), retried, "429"},
		"500":        {status(500), retried, "500"},
		"503":        {status(503), retried, "503"},
		"a closed connection": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, retried,
			"closed without an answer"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tt.answer(w)
			}))
			defer s.Close()
			got, err := open(t, Target{URL: s.URL}).send(t.Context(), nil)
			var no *rejection
			is := accepted
			switch {
			case errors.As(err, &no):
				is = rejected
			case err != nil:
				is = retried
			}
			if is != tt.want || err != nil && (!strings.Contains(err.Error(), tt.text) ||
				strings.Contains(err.Error(), "and more")) {
				t.Errorf("%s: %v, want %s: %s", is, err, tt.want, tt.text)
			}
			if strings.HasPrefix(name, "5") && got.after != 7*time.Second {
				t.Errorf("it waits %v, want 7 s", got.after)
			}
		})
	}
}

// TestNoHTTP checks a receiver that answers what is not HTTP, and one that does not exist.
func TestNoHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("220 mail ready\r\n"))
			_ = c.Close()
		}
	}()
	r := open(t, Target{URL: "http://me:s3cret@" + l.Addr().String()})
	for _, want := range []string{"malformed HTTP", "refused"} {
		_, err := r.send(t.Context(), nil)
		var no *rejection
		if err == nil || errors.As(err, &no) || strings.Contains(err.Error(), "s3cret") ||
			want == "refused" && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		_ = l.Close()
	}
}

// TestSlowReceiver checks that a receiver that does not answer does not hold up the end of the
// server, and that a request that is under way then is completed.
func TestSlowReceiver(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hangs bool
	}{{"answers late", false}, {"hangs", true}} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			release := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				cancel()
				if tt.hangs {
					select {
					case <-release:
					case <-r.Context().Done():
					}
				}
			}))
			defer s.Close()
			defer close(release)
			_, err := open(t, Target{URL: s.URL}).send(ctx, nil)
			if (err != nil) != tt.hangs {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestClocks checks from which difference on the clock of a receiver is reported, and that the key
// of the problem stays while its text changes.
func TestClocks(t *testing.T) {
	m := world(t)
	r, to := receives(t)
	from := midnight.Add(-1000 * measure.Second)
	w := m.writer(t, from, to, measure.Second)
	real := w.to.now
	for i, tt := range []struct {
		ahead time.Duration // of this host
		want  string
	}{
		{0, ""}, {8 * time.Second, ""}, {-8 * time.Second, ""}, {3 * time.Minute, "3m0s behind"},
		{-5 * time.Minute, "5m0s ahead of"}, {0, ""},
	} {
		w.to.now = func() time.Time { return real().Add(tt.ahead) }
		if err := w.round(t.Context(), from.Add(measure.Span(i+1)*measure.Second)); err != nil {
			t.Fatal(err)
		}
		got := w.Problems()
		if tt.want == "" && len(got) == 0 {
			continue
		}
		// The receiver's time has whole seconds.
		text := strings.NewReplacer("2m59s", "3m0s", "4m59s", "5m0s", "3m1s", "3m0s").Replace(
			fmt.Sprint(got))
		if len(got) != 1 || got[0].Key != "remote write 127.0.0.1 clock" ||
			tt.want == "" || !strings.Contains(text, tt.want) {
			t.Errorf("%v: %v, want %q", tt.ahead, got, tt.want)
		}
	}
	if r.asked < 6 {
		t.Errorf("%d requests", r.asked)
	}
}

// TestExternalLabels checks the labels of each series, and a field with the name of one.
func TestExternalLabels(t *testing.T) {
	m := &memory{}
	m.record(t, measure.Delta, measure.Nanoseconds, false, "disk.busy by device")
	m.put("disk.busy", noon.Add(measure.Second), map[string]float64{"sda": 5})
	r, to := receives(t)
	w := m.writer(t, noon, to, measure.Second, func(t *Target, _ *Source) {
		t.Instance, t.Job = "db1:9100", "fleet"
		t.ExternalLabels = map[string]string{"region": "eu", "device": "of the rack\xff"}
	})
	if err := w.round(t.Context(), noon.Add(measure.Second)); err != nil {
		t.Fatal(err)
	}
	want := `{__name__="culprit_disk_busy_seconds_total", device="of the rack\\xff", ` +
		`exported_device="sda", instance="db1:9100", job="fleet", region="eu"}`
	if len(r.series[want]) != 2 {
		t.Errorf("%v, want %s", r.series, want)
	}
}
