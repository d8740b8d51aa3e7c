package access

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Sites are the addresses at which a server can be reached beside loopback and the address of the
// connection.
type Sites struct {
	// Names returns DNS names of the server in lower case; nil: there are none. It is called by
	// several goroutines.
	Names func() []string
	// Public is the URL of the page at a proxy in front of the server; nil: there is no proxy. Its
	// host is in lower case, and its path begins and ends in "/".
	Public *url.URL
	// Forwarded makes the server believe X-Forwarded-Host, -Proto and -For. Without a proxy that
	// sets them, each client could.
	Forwarded bool
}

// site is an address of the server as the browser has it.
type site struct {
	scheme string // http or https
	host   string // in lower case, without the default port of the scheme
	path   string // begins and ends in "/"
}

// withoutPort returns a host in lower case, without the default port of a scheme.
func withoutPort(scheme, host string) string {
	host = strings.ToLower(host)
	if scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

// of returns the site of a request. ok is false if the request names a host that is not ours: the
// owner of a name can let it point to this machine, and read our replies.
func (s *Sites) of(r *http.Request) (at site, ok bool) {
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if s.Forwarded {
		if h := last(r.Header, "X-Forwarded-Host"); h != "" {
			host = h
		}
		if p := last(r.Header, "X-Forwarded-Proto"); p == "http" || p == "https" {
			scheme = p
		}
	}
	if p := s.Public; p != nil {
		if withoutPort(p.Scheme, host) == withoutPort(p.Scheme, p.Host) {
			return s.public(), true
		}
	}
	return site{scheme, withoutPort(scheme, host), "/"}, s.isOurs(r, host)
}

// public returns the site of Public, which must not be nil.
func (s *Sites) public() site {
	return site{s.Public.Scheme, withoutPort(s.Public.Scheme, s.Public.Host), s.Public.Path}
}

// last returns the last value of a header with a list: that of the nearest proxy.
func last(h http.Header, name string) string {
	all := h.Values(name)
	if len(all) == 0 {
		return ""
	}
	list := all[len(all)-1]
	return strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
}

// isOurs reports whether host is a loopback name or address, the address of the request's
// connection, or one of Names.
func (s *Sites) isOurs(r *http.Request, host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if isLocalName(host) || s.Names != nil && slices.Contains(s.Names(), host) {
		return true
	}
	ip := net.ParseIP(host)
	if ip == nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ip.IsLoopback() || ok && local.IP.Equal(ip)
}

func isLocalName(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// isOrigin reports whether an Origin header is that of the site, or of Public: scheme, host and
// port must be equal.
func (s *Sites) isOrigin(origin string, at site) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Path != "" {
		return false
	}
	is := func(at site) bool {
		return u.Scheme == at.scheme && withoutPort(u.Scheme, u.Host) == at.host
	}
	return is(at) || s.Public != nil && is(s.public())
}

// peer returns the address of a request's client, without its port.
func (s *Sites) peer(r *http.Request) string {
	if s.Forwarded {
		if ip := net.ParseIP(last(r.Header, "X-Forwarded-For")); ip != nil {
			return ip.String()
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return host
}

// Strip removes the path of Public from a request: a proxy may pass it on or not. It returns the
// request, or a copy.
func (s *Sites) Strip(r *http.Request) *http.Request {
	if s.Public == nil || s.Public.Path == "/" {
		return r
	}
	rest, found := strings.CutPrefix(r.URL.Path, s.Public.Path)
	if !found {
		return r
	}
	r2 := r.Clone(r.Context())
	r2.URL.Path, r2.URL.RawPath = "/"+rest, ""
	return r2
}

// checkOrigin returns the site of a request. It refuses requests that a page of another site made:
// those to a host name that is not ours, and those whose headers name another origin.
func (s *Sites) checkOrigin(r *http.Request) (site, error) {
	at, ok := s.of(r)
	if !ok {
		return at, &Refusal{
			Status: http.StatusMisdirectedRequest, Code: "wrong-host",
			Message: "this server is not known as " + Printable(r.Host),
			Hint:    "use its address, localhost, a name of its TLS certificate, or --public-url",
		}
	}
	foreign := &Refusal{
		Status: http.StatusForbidden, Code: "wrong-origin",
		Message: "requests from other sites are refused",
	}
	if list := r.Header.Values("Origin"); len(list) > 0 {
		if len(list) > 1 || !s.isOrigin(list[0], at) {
			return at, foreign
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return at, nil
	}
	// A link from another site to the page is fine; its scripts and images may load nothing here.
	navigates := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Method == http.MethodGet
	if !navigates || strings.Contains(r.URL.Path, "/api/") {
		return at, foreign
	}
	return at, nil
}
