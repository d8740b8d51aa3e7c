package term

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"culprit/measure"

	"github.com/spf13/pflag"
)

// Access holds the flags of `culprit serve` that say how browsers reach it and how long they stay.
type Access struct {
	// A session ends when it was not used for SessionIdle, and SessionMax after its login.
	SessionIdle, SessionMax time.Duration
	// PublicURL is the address of the page at a proxy, with a path that ends in "/"; nil: there is
	// no proxy.
	PublicURL *url.URL
	// Forwarded makes the server believe X-Forwarded-Host, -Proto and -For.
	Forwarded bool
}

// accessFlags defines the flags of a. The caller calls parse after they are set; its error is a
// usage error.
func accessFlags(f *pflag.FlagSet, a *Access) (parse func() error) {
	idle := f.String(
		"session-idle", "12h", "a browser that was not used for this time must log in again",
	)
	longest := f.String("session-max", "30d", "a browser must log in again after this time")
	public := f.String(
		"public-url", "",
		"address of the page at a proxy in front of it, such as https://host/culprit/",
	)
	f.BoolVar(
		&a.Forwarded, "trust-forwarded", false,
		"believe X-Forwarded-Host, -Proto and -For: only behind a proxy that sets them",
	)
	return func() (err error) {
		if a.SessionIdle, err = parseSessionTime("session-idle", *idle); err != nil {
			return err
		}
		if a.SessionMax, err = parseSessionTime("session-max", *longest); err != nil {
			return err
		}
		if *public != "" {
			a.PublicURL, err = parsePublicURL(*public)
		}
		return err
	}
}

// parseSessionTime parses how long a session lasts: 30m, 12h, 7d; at least a minute.
func parseSessionTime(flag, text string) (time.Duration, error) {
	d, err := parseValidity(flag, text)
	if err == nil && d < measure.Minute {
		err = usagef("--%s %q: give a minute or more", flag, text)
	}
	return time.Duration(d), err
}

// parsePublicURL parses the address of a page behind a proxy: a scheme, a host, and a path.
func parsePublicURL(text string) (*url.URL, error) {
	bad := func(why string) (*url.URL, error) {
		return nil, usagef("--public-url %q: %s", text, why)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return bad("it is not an address, such as https://host/culprit/")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return bad("it needs a scheme and a host, such as https://host/culprit/")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return bad("it may have a scheme, a host and a path only")
	}
	u.Path = strings.TrimRight(u.Path, "/") + "/"
	if strings.Contains(u.Path, "//") || strings.ContainsAny(u.Path, "; ,\"\\") ||
		slices.Contains(strings.Split(u.Path, "/"), "..") {
		return bad("its path can't be that of a cookie")
	}
	u.RawPath, u.Host = "", strings.ToLower(u.Host)
	return u, nil
}
