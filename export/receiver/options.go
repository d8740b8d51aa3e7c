package receiver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"culprit/measure"
)

// Options say how to authenticate at a server. An address has them after its #, separated by &:
// https://host:9093/path#token-file=/etc/culprit/token. Secrets are in files, since other users can
// read the command line of a process.
type Options struct {
	Insecure     bool   // secrets may be sent by plain HTTP to another machine
	TokenFile    string // its first line is a bearer token; "": none
	User         string // name for basic authentication; "": none
	PasswordFile string // its first line is the password of User
	Tenant       string // the header X-Scope-OrgID; "": none
	CAFile       string // certificates of authorities that sign the server's; "": the system's
	CertFile     string // certificate of the client; "": none
	KeyFile      string // its private key
	ServerName   string // the name in the server's certificate; "": the host of the address
}

// maxSecretFile bounds a file of a token or a password, in bytes.
const maxSecretFile = 64 << 10

// OptionNames returns the names of all options.
func OptionNames() []string {
	return []string{
		"insecure", "token-file", "user", "password-file", "tenant", "ca-file", "cert-file",
		"key-file", "server-name",
	}
}

// text returns the option of a name; nil: it has no text, or there is none.
func (o *Options) text(name string) *string {
	return map[string]*string{
		"token-file": &o.TokenFile, "user": &o.User, "password-file": &o.PasswordFile,
		"tenant": &o.Tenant, "ca-file": &o.CAFile, "cert-file": &o.CertFile,
		"key-file": &o.KeyFile, "server-name": &o.ServerName,
	}[name]
}

// Set sets the option of a text such as token-file=FILE. The error names the mistake.
func (o *Options) Set(text string) error {
	name, value, _ := strings.Cut(text, "=")
	to := o.text(name)
	switch {
	case name == "insecure":
		if text != name || o.Insecure {
			return errors.New("the option insecure has no value")
		}
		o.Insecure = true
	case to == nil:
		return fmt.Errorf("there is no option %q: %s", name, Near(name, OptionNames()))
	case value == "" || *to != "":
		return fmt.Errorf("the option %s needs one value", name)
	default:
		*to = value
	}
	return nil
}

// Near returns what to write instead of an unknown name.
func Near(name string, names []string) string {
	if near := measure.Nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	return "there are " + strings.Join(names, ", ")
}

// CutOptions removes the options from an address and returns them, checked. The error names the
// mistake.
func CutOptions(u *url.URL) (o Options, err error) {
	for part := range strings.SplitSeq(u.Fragment, "&") {
		if part == "" {
			continue
		}
		if err := o.Set(part); err != nil {
			return o, err
		}
	}
	u.Fragment, u.RawFragment = "", ""
	return o, o.Check(u)
}

// Check returns an error for options that need another one, or exclude it, or that would send a
// secret to an address without encryption.
func (o *Options) Check(u *url.URL) error {
	for _, pair := range [][2]string{{"user", "password-file"}, {"cert-file", "key-file"}} {
		if (*o.text(pair[0]) == "") != (*o.text(pair[1]) == "") {
			return fmt.Errorf("the options %s and %s belong together", pair[0], pair[1])
		}
	}
	switch {
	case o.User != "" && o.TokenFile != "":
		return errors.New("the options user and token-file exclude each other")
	case u.Scheme == "http" && o.CAFile+o.CertFile+o.ServerName != "":
		return errors.New("certificates need https")
	case o.HasSecret() && !o.Insecure && measure.LeaksSecret(u):
		return errors.New("the secret would be sent without encryption: use https, or add the " +
			"option insecure")
	}
	return nil
}

// HasSecret reports whether the options have a token or a password.
func (o *Options) HasSecret() bool { return o.TokenFile != "" || o.User != "" }

// Files returns the files that the options name.
func (o *Options) Files() []string {
	return slices.DeleteFunc(
		[]string{o.TokenFile, o.PasswordFile, o.CAFile, o.CertFile, o.KeyFile},
		func(path string) bool { return path == "" },
	)
}

// Files returns the files that the options of an address name; nil if it has a mistake.
func Files(address string) []string {
	_, o, err := split(address)
	if err != nil {
		return nil
	}
	return o.Files()
}

// Header returns the headers of the options. The error is of reading a file, and repeats no secret.
func (o *Options) Header() (http.Header, error) {
	h := http.Header{}
	if o.Tenant != "" {
		h.Set("X-Scope-OrgID", o.Tenant)
	}
	if o.TokenFile != "" {
		token, err := readSecret(o.TokenFile)
		if err != nil {
			return nil, err
		}
		h.Set("Authorization", "Bearer "+token)
	}
	if o.User != "" {
		password, err := readSecret(o.PasswordFile)
		if err != nil {
			return nil, err
		}
		r := http.Request{Header: h}
		r.SetBasicAuth(o.User, password)
	}
	return h, nil
}

// readSecret returns the first line of a file.
func readSecret(path string) (string, error) {
	b, err := readSmall(path)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", fmt.Errorf("%s is empty: its first line must be the secret", path)
	}
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("%s: its first line is no text", path)
	}
	return line, nil
}

// readSmall returns the content of a file of at most maxSecretFile bytes.
func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSecretFile {
		return nil, fmt.Errorf("%s is no file of at most %d kB", path, maxSecretFile>>10)
	}
	return os.ReadFile(path)
}

// maxCAFile bounds a file of certificates, in bytes: a bundle of all public authorities is 230 kB.
const maxCAFile = 4 << 20

// TLS returns the configuration of the options; nil: the default. The error is of reading a file.
func (o *Options) TLS() (*tls.Config, error) {
	if o.CAFile+o.CertFile+o.ServerName == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName}
	if o.CAFile != "" {
		info, err := os.Stat(o.CAFile)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() || info.Size() > maxCAFile {
			return nil, fmt.Errorf("%s is no file of at most %d MB", o.CAFile, maxCAFile>>20)
		}
		b, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("%s has no certificate in PEM", o.CAFile)
		}
	}
	if o.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
