package measure

import (
	"net"
	"net/url"
	"strings"
)

// LeaksSecret reports whether a secret that is sent to u can be read on the way: by plain HTTP to
// another machine. The fragment #insecure of an address accepts that.
func LeaksSecret(u *url.URL) bool {
	if u.Scheme != "http" || u.Fragment == "insecure" {
		return false
	}
	host := u.Hostname()
	if strings.EqualFold(host, "localhost") {
		return false
	}
	ip := net.ParseIP(host)
	return ip == nil || !ip.IsLoopback()
}
