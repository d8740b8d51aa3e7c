package remotewrite

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"culprit/export/receiver"
	"culprit/measure"
)

// Histograms is how distributions are sent.
type Histograms string

const (
	// Native histograms have exponential buckets: schema 5 for the built-in statistics.
	Native Histograms = "native"
	// Classic histograms are series NAME_bucket with the label le, NAME_sum and NAME_count.
	Classic Histograms = "classic"
)

const (
	defaultInterval = 15 * measure.Second
	defaultJob      = "culprit"
)

// Target is a receiver of remote write and how to send to it. The zero value of a field is its
// default. Call Check before use. Secrets are only in files, and in Token.
type Target struct {
	// Name identifies the target in messages, and its position in the recording. Letters, digits,
	// "-", "_" and ".". Default: the host of URL.
	Name string `yaml:"name"`
	// URL is the address, such as https://host/api/v1/write. A password in it is sent as basic
	// auth. It may have receiver.Options after a #, which replace the fields below. Secrets are
	// not sent by plain HTTP to another machine, unless there is the option insecure.
	URL string `yaml:"url"`
	// Interval is the time between samples: whole seconds that divide a minute. Default: 15 s.
	Interval measure.Span `yaml:"interval"`
	// Histograms is native or classic. Default: native.
	Histograms Histograms `yaml:"histograms"`
	// Headers are sent with each request, such as X-Scope-OrgID with the tenant. Authorization
	// and the headers of remote write itself are refused.
	Headers map[string]string `yaml:"headers"`
	// BearerTokenFile contains the token to send.
	BearerTokenFile string    `yaml:"bearer_token_file"`
	BasicAuth       BasicAuth `yaml:"basic_auth"`
	TLS             TLS       `yaml:"tls"`
	// ExternalLabels are added to each series. A field of the same name becomes exported_NAME.
	ExternalLabels map[string]string `yaml:"external_labels"`
	// Instance is the label instance. Default: the name of the host.
	Instance string `yaml:"instance"`
	// Job is the label job. Default: culprit.
	Job string `yaml:"job"`
	// Token is a bearer token that is in no file, as from the environment; "" for none.
	Token string `yaml:"-"`
}

// BasicAuth is a name and password.
type BasicAuth struct {
	Username     string `yaml:"username"`
	PasswordFile string `yaml:"password_file"` // contains the password
}

// TLS says which certificates are used. Files are in PEM.
type TLS struct {
	// CAFile has the certificates that the receiver's must be signed by. Default: the system's.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are the client certificate, both or none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the name in the receiver's certificate. Default: the host of the URL.
	ServerName string `yaml:"server_name"`
}

// Fault is a mistake in a Target.
type Fault struct {
	Field string // its name in YAML, such as tls.cert_file
	Text  string // what is wrong, and what to do
}

// Error returns the field and what is wrong with it.
func (f *Fault) Error() string { return "remote write: " + f.Field + ": " + f.Text }

var (
	namePattern = regexp.MustCompile(
		`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`,
	) // table: made once, never changed
	labelPattern  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)      // table: as above
	headerPattern = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$") // table: as above
)

// Check sets the defaults but that of Instance. The error has all mistakes, joined; each is a
// *Fault.
func (t *Target) Check() error {
	var all []error
	fault := func(field, format string, args ...any) {
		all = append(all, &Fault{field, fmt.Sprintf(format, args...)})
	}
	u, err := url.Parse(t.URL)
	// The address is not repeated: it may contain a password.
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		fault("url", "not the address of a receiver, such as https://host/api/v1/write")
		u = &url.URL{Scheme: "https"}
	}
	if err := t.takeOptions(u); err != nil {
		fault("url", "%v", err)
	}
	t.Interval = cmp.Or(t.Interval, defaultInterval)
	t.Histograms = cmp.Or(t.Histograms, Native)
	t.Job = cmp.Or(t.Job, defaultJob)
	if t.Name == "" {
		t.Name = strings.Trim(strings.ReplaceAll(u.Hostname(), ":", "-"), "-.")
	}
	if !namePattern.MatchString(t.Name) && len(all) == 0 {
		fault("name", "%q: use letters, digits, -, _ and .", t.Name)
	}
	if t.Interval < measure.Second || t.Interval%measure.Second != 0 ||
		measure.Minute%t.Interval != 0 {
		fault("interval", "%v: use whole seconds that divide a minute: 1s, 5s, 15s, 60s",
			t.Interval)
	}
	if t.Histograms != Native && t.Histograms != Classic {
		fault("histograms", "%q: use native or classic", string(t.Histograms))
	}
	t.checkHeaders(fault)
	t.checkLabels(fault)
	t.checkSecrets(u, fault)
	return errors.Join(all...)
}

// takeOptions sets the fields that options of the address replace, and leaves the address with no
// option but insecure. The error names the mistake.
func (t *Target) takeOptions(u *url.URL) error {
	if u.Fragment == "" {
		return nil
	}
	o, err := receiver.CutOptions(u)
	if o.Insecure {
		u.Fragment = "insecure" // see measure.LeaksSecret
	}
	if err != nil {
		return err
	}
	t.URL = u.String()
	if o.HasSecret() {
		t.BearerTokenFile = o.TokenFile
		t.BasicAuth = BasicAuth{Username: o.User, PasswordFile: o.PasswordFile}
	}
	if o.Tenant != "" {
		headers := maps.Clone(t.Headers) // other targets share the map
		if headers == nil {
			headers = map[string]string{}
		}
		maps.DeleteFunc(headers, func(name, _ string) bool {
			return strings.EqualFold(name, tenantHeader)
		})
		headers[tenantHeader] = o.Tenant
		t.Headers = headers
	}
	t.TLS.CAFile = cmp.Or(o.CAFile, t.TLS.CAFile)
	t.TLS.ServerName = cmp.Or(o.ServerName, t.TLS.ServerName)
	if o.CertFile != "" {
		t.TLS.CertFile, t.TLS.KeyFile = o.CertFile, o.KeyFile
	}
	return nil
}

// tenantHeader has the tenant of Mimir, Thanos and Pyroscope.
const tenantHeader = "X-Scope-OrgID"

// Files returns the files of a checked target.
func (t *Target) Files() []string {
	return slices.DeleteFunc(
		[]string{
			t.BearerTokenFile, t.BasicAuth.PasswordFile, t.TLS.CAFile, t.TLS.CertFile,
			t.TLS.KeyFile,
		},
		func(path string) bool { return path == "" },
	)
}

func (t *Target) checkHeaders(fault func(field, format string, args ...any)) {
	own := []string{
		"authorization", "connection", "content-encoding", "content-length", "content-type",
		"host", "transfer-encoding", "x-prometheus-remote-write-version",
	}
	for _, name := range sortedKeys(t.Headers) {
		value := t.Headers[name]
		control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
		switch {
		case !headerPattern.MatchString(name):
			fault("headers", "%q is not the name of a header", name)
		case strings.EqualFold(name, "authorization"):
			fault("headers", "Authorization: use bearer_token_file or basic_auth")
		case slices.Contains(own, strings.ToLower(name)):
			fault("headers", "%s is set by remote write itself", name)
		case strings.ContainsFunc(value, control): // the value may be a secret
			fault("headers", "the value of %s has control characters", name)
		}
	}
}

func (t *Target) checkLabels(fault func(field, format string, args ...any)) {
	for _, name := range sortedKeys(t.ExternalLabels) {
		switch {
		case !labelPattern.MatchString(name) || strings.HasPrefix(name, "__"):
			fault("external_labels", "%q: use letters, digits and _, and no __ at the start", name)
		case name == "instance" || name == "job":
			fault("external_labels", "%s has a field of its own: %s", name, name)
		case name == "le" || name == "quantile":
			fault("external_labels", "%s has a meaning for Prometheus: use another name", name)
		}
	}
}

func (t *Target) checkSecrets(u *url.URL, fault func(field, format string, args ...any)) {
	ways := 0
	for _, used := range []bool{
		u.User != nil, t.Token != "" || t.BearerTokenFile != "", t.BasicAuth != BasicAuth{},
	} {
		if used {
			ways++
		}
	}
	if ways > 1 {
		fault("basic_auth", "use one of basic_auth, a bearer token and a password in the url")
	}
	if t.Token != "" && t.BearerTokenFile != "" {
		fault("bearer_token_file", "there is a token in the environment too: use one")
	}
	if (t.BasicAuth.Username == "") != (t.BasicAuth.PasswordFile == "") {
		fault("basic_auth", "username and password_file belong together")
	}
	if (t.TLS.CertFile == "") != (t.TLS.KeyFile == "") {
		fault("tls", "cert_file and key_file belong together")
	}
	if t.TLS != (TLS{}) && u.Scheme == "http" {
		fault("tls", "the url is http: certificates need https")
	}
	if ways > 0 && measure.LeaksSecret(u) {
		fault("url", "the token or password would be sent to %s without encryption: "+
			"use https, or end the address with #insecure", u.Host)
	}
}

// sortedKeys returns the keys of a map in the order of the alphabet.
func sortedKeys(m map[string]string) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// CheckAll sets the defaults of targets. The error has their mistakes, as that of Check. Two
// targets may not have one name: those without a name get a number.
func CheckAll(targets []Target) error {
	var all []error
	taken := map[string]bool{}
	for i := range targets {
		t := &targets[i]
		named := t.Name != ""
		if err := t.Check(); err != nil {
			all = append(all, err)
			continue
		}
		base := t.Name
		for n := 2; taken[t.Name]; n++ {
			if named {
				all = append(all, &Fault{"name", fmt.Sprintf("%q is used twice", base)})
				break
			}
			t.Name = fmt.Sprintf("%s-%d", base, n)
		}
		taken[t.Name] = true
	}
	return errors.Join(all...)
}
