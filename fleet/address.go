package fleet

import (
	"fmt"
	"net/url"
	"strings"

	"culprit/measure"
)

// Template is the address of the server of each host, with parts in braces: {instance} is the name
// of the host in the engine, {host} the name without a port, {cluster} its label cluster.
//
// Example: https://{host}:7410/
type Template string

// Check returns an error unless the template is an http or https address with closed braces.
func (t Template) Check() error {
	if t == "" {
		return nil
	}
	example, ok := t.fill(func(string) string { return "a" })
	u, err := url.Parse(example)
	if !ok || err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is not the address of a server with parts in braces: "+
			"https://{host}:7410/", measure.Clean(string(t)))
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("the address must not contain a user name, password, query or " +
			"fragment: all users who can see the hosts can see the address")
	}
	return nil
}

// Of returns the address of the server of a host; "": there is none. Names and labels come from
// whoever writes to the engine, so one with other characters than those of host names, which could
// lead elsewhere, has no address.
func (t Template) Of(h *Host) string {
	if t == "" {
		return ""
	}
	safe := true
	address, ok := t.fill(func(name string) string {
		v := h.Labels[name]
		switch name {
		case "instance":
			v = h.Name
		case "host":
			v, _, _ = strings.Cut(h.Name, ":")
		}
		safe = safe && v != "" && strings.Trim(v, hostBytes) == "" && v[0] != '.' && v[0] != ':'
		return v
	})
	if !ok || !safe {
		return ""
	}
	return address
}

// hostBytes are the characters of host names, addresses and ports.
const hostBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:"

// fill replaces the parts in braces. ok is false if a brace is not closed or empty.
func (t Template) fill(value func(name string) string) (address string, ok bool) {
	rest := string(t)
	var b strings.Builder
	for {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			return b.String(), !strings.Contains(b.String(), "}")
		}
		name, end, closed := strings.Cut(after, "}")
		if !closed || name == "" || strings.Contains(name, "{") {
			return "", false
		}
		b.WriteString(value(name))
		rest = end
	}
}
