package engine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"culprit/export/receiver"
)

// Options describe how to reach an engine.
type Options struct {
	URL string // base address, without options: api/v1/query is below it
	// Options are those of all servers that a user names: tokens, certificates.
	receiver.Options
	BasicFile  string // contains NAME:PASSWORD; "": none
	HeaderFile string // contains "Name: value" lines; "": none
	// HostLabel is the label with the name of the host. "": instance.
	HostLabel string
}

// optionNames returns the keys of ParseOptions.
func optionNames() []string {
	return append(receiver.OptionNames(), "basic-file", "header-file", "host-label")
}

// ParseOptions returns the options of an address, which follow its #, and of a list of KEY=VALUE.
// bearer-file is another name of token-file. The error names an unknown key and the nearest one.
func ParseOptions(address string, pairs []string) (o Options, err error) {
	address, fragment, _ := strings.Cut(address, "#")
	if fragment, err = url.PathUnescape(fragment); err != nil {
		return o, errors.New("the options after # of the engine's address are not percent-encoded")
	}
	o.URL = address
	for _, pair := range append(strings.Split(fragment, "&"), pairs...) {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		to := map[string]*string{
			"basic-file": &o.BasicFile, "header-file": &o.HeaderFile, "host-label": &o.HostLabel,
		}[key]
		switch {
		case key == "bearer-file":
			err = o.Set("token-file=" + value)
		case to == nil && !slices.Contains(optionNames(), key):
			err = fmt.Errorf("there is no option %q: %s", key, receiver.Near(key, optionNames()))
		case to == nil:
			err = o.Set(pair)
		case value == "" || *to != "":
			err = fmt.Errorf("the option %s needs one value", key)
		default:
			*to = value
		}
		if err != nil {
			return o, fmt.Errorf("engine: %w", err)
		}
	}
	return o, nil
}

// Files returns the files that the options name.
func (o *Options) Files() []string {
	return slices.DeleteFunc(
		append(o.Options.Files(), o.BasicFile, o.HeaderFile),
		func(path string) bool { return path == "" },
	)
}

// maxSecretFile bounds a file with a secret or headers, in bytes.
const maxSecretFile = 64 << 10

// readSmall returns the contents of a file of at most limit bytes.
func readSmall(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", name, limit)
	}
	return b, err
}

// parseHeaders reads "Name: value" lines; # starts a comment line. The error has the line number
// and never the value.
func parseHeaders(text []byte) (http.Header, error) {
	h := http.Header{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok || value == "":
			return nil, fmt.Errorf("line %d: write a header as Name: value", n)
		case !isToken(name):
			return nil, fmt.Errorf("line %d: %q is not the name of a header", n, name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return nil, fmt.Errorf("line %d: the value of %s has a control character", n, name)
		}
		switch http.CanonicalHeaderKey(name) {
		case "Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection":
			return nil, fmt.Errorf("line %d: %s cannot be set", n, name)
		}
		h.Add(name, value)
	}
	return h, lines.Err()
}

// isToken reports whether a text consists of the characters of a header's name (RFC 9110, 5.6.2).
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}

// headers returns the headers of each request, with the secrets of the files.
func (o *Options) headers() (http.Header, error) {
	h, err := o.Header()
	if err != nil {
		return nil, fmt.Errorf("read the secrets of the engine: %w", err)
	}
	if o.HeaderFile != "" {
		text, err := readSmall(o.HeaderFile, maxSecretFile)
		if err != nil {
			return nil, fmt.Errorf("read the headers of the engine: %w", err)
		}
		more, err := parseHeaders(text)
		if err != nil {
			return nil, fmt.Errorf("headers of the engine: %s, %w", o.HeaderFile, err)
		}
		for name, values := range more {
			h[name] = values
		}
	}
	if o.BasicFile == "" {
		return h, nil
	}
	if o.HasSecret() {
		return nil, errors.New("the engine option basic-file excludes user and token-file")
	}
	text, err := readSmall(o.BasicFile, maxSecretFile)
	if err != nil {
		return nil, fmt.Errorf("read the name and password of the engine: %w", err)
	}
	name, password, ok := strings.Cut(strings.TrimSpace(string(text)), ":")
	if !ok || strings.ContainsAny(password, "\r\n") {
		return nil, fmt.Errorf("%s must contain NAME:PASSWORD on one line", o.BasicFile)
	}
	r := http.Request{Header: h}
	r.SetBasicAuth(name, password)
	return h, nil
}

// address returns the parsed base address. The error does not repeat it: it may contain a password.
func (o *Options) address() (*url.URL, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("not the address of an engine: write http://host:9090, or " +
			"https://host/prometheus if its API is at https://host/prometheus/api/v1/query")
	}
	if u.User != nil {
		return nil, errors.New("the address of the engine contains a password, which other users " +
			"can see: end it with #user=NAME&password-file=FILE")
	}
	if u.RawQuery != "" {
		return nil, errors.New("the address of the engine contains a query: leave out what " +
			"follows the ?")
	}
	return u, nil
}
