package receiver

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Target is a server to which requests are sent. It is safe for concurrent use.
type Target struct {
	url    *url.URL // without user, query and fragment; its path has no "/" at the end
	header http.Header
	client *http.Client
}

// Parse returns the target of an address with its Options. Their files are read once. timeout
// bounds a request. The error names the mistake and repeats no secret; it is that of reading a
// file, too.
func Parse(address string, timeout time.Duration) (*Target, error) {
	u, given, err := split(address)
	if err != nil {
		return nil, err
	}
	t := &Target{url: u}
	if t.header, err = given.Header(); err != nil {
		return nil, fmt.Errorf("%s: %w", u.Host, err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // net/http documents its type
	transport.MaxIdleConnsPerHost, transport.IdleConnTimeout = 1, 2*time.Minute
	if transport.TLSClientConfig, err = given.TLS(); err != nil {
		return nil, fmt.Errorf("%s: %w", u.Host, err)
	}
	t.client = &http.Client{
		Timeout: timeout, Transport: transport,
		// A redirection is a mistake of the address, and could lead secrets elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	return t, nil
}

// Check checks an address without reading its files. The error names the mistake.
func Check(address string) error {
	_, _, err := split(address)
	return err
}

// split splits an address into its URL and its options.
func split(address string) (*url.URL, Options, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, Options{}, errors.New("it is not an address, such as https://host:9093")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, Options{}, errors.New(
			"it needs a scheme and a host, such as https://host:9093")
	case u.User != nil:
		return nil, Options{}, errors.New(
			"a password in an address can be seen by others: use #user=NAME&password-file=FILE")
	case u.RawQuery != "":
		return nil, Options{}, errors.New("an address has no query; options follow a #")
	}
	given, err := CutOptions(u)
	u.Path = strings.TrimRight(u.Path, "/")
	return u, given, err
}

// String returns the address without secrets.
func (t *Target) String() string { return t.url.String() }

// Origin returns the scheme and host of the address.
func (t *Target) Origin() string { return t.url.Scheme + "://" + t.url.Host }

// SetTimeout bounds a request by another time than that of Parse. Call it before Post.
func (t *Target) SetTimeout(d time.Duration) { t.client.Timeout = d }
