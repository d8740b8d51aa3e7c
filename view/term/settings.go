package term

import (
	"net/url"
	"strings"

	"github.com/spf13/pflag"
)

// setting is what a flag of `culprit serve` is in the configuration file: its key has the same
// name, form, default and help.
type setting struct {
	name string
	// reload: SIGHUP changes it in a running server. Others need a restart.
	reload bool
	// example is the value in the example file, as YAML; "": the default of the flag.
	example string
	// mask hides the password in a value; nil: it has none. A file with a password must not be
	// readable by others.
	mask func(text string) string
	// hide hides what may be a secret when the value is shown; nil: nothing.
	hide func(text string) string
}

// A settingGroup is a part of the example file.
type settingGroup struct {
	title    string
	settings []setting
}

// settingGroups lists the settings in the order of the example file. A test compares them with the
// flags of `culprit serve`.
func settingGroups() []settingGroup {
	return []settingGroup{
		{"Where it listens, and for whom", []setting{
			{name: "listen"},
			{name: "tls-cert", example: "/etc/culprit/cert.pem"},
			{name: "tls-key", example: "/etc/culprit/key.pem"},
			{name: "public-url", example: "https://host/culprit/", reload: true},
			{name: "trust-forwarded", reload: true},
			{name: "session-idle", reload: true},
			{name: "session-max", reload: true},
			{name: "print-token"},
		}},
		{"The archive", []setting{
			{name: "dir", example: "/var/lib/culprit"},
			{name: "keep", reload: true},
			{name: "size", reload: true},
			{name: "disk-full", reload: true},
		}},
		{"What is recorded", []setting{
			{name: "budget"},
			{name: "profile"},
			{name: "command-lines"},
			{name: "kernel-log"},
			{name: "mask", example: `["--license[= ](\\S+)"]`},
			{name: "script-memory"},
			{name: "for", example: "2h"},
		}},
		{"What is sent to other systems", []setting{
			{
				name: "remote-write", example: "https://prometheus.example/api/v1/write",
				reload: true, mask: maskAddress, hide: hideQuery,
			},
			{name: "remote-write-each", reload: true},
			{name: "remote-write-histograms", reload: true},
			{
				name: "remote-write-header", example: `["X-Scope-OrgID: tenant"]`, reload: true,
				hide: hideHeader,
			},
			{
				name: "remote-write-token-file", example: "/etc/culprit/remote-write.token",
				reload: true,
			},
			{name: "remote-write-user", example: "culprit", reload: true}, // or a token
			{
				name: "remote-write-password-file", example: "/etc/culprit/remote-write.password",
				reload: true,
			},
			{name: "remote-write-ca", example: "/etc/culprit/ca.pem", reload: true},
			{name: "remote-write-cert", example: "/etc/culprit/client.pem", reload: true},
			{name: "remote-write-key", example: "/etc/culprit/client.key", reload: true},
			{name: "remote-write-server-name", example: "prometheus.example", reload: true},
			{name: "remote-write-label", example: `["region=eu"]`, reload: true},
			{name: "remote-write-instance", example: "db1", reload: true},
			{name: "remote-write-job", reload: true},
			{
				name: "alertmanager", reload: true,
				example: `["https://alertmanager.example#token-file=/etc/culprit/alert.token"]`,
			},
			{
				name: "webhook", example: `["https://hook.example/culprit"]`, reload: true,
				hide: hidePath,
			},
			{
				name: "pyroscope", reload: true,
				example: `["https://pyroscope.example#tenant=blue"]`,
			},
			{name: "log-findings", reload: true},
		}},
		{"The hosts of an engine", []setting{
			{name: "engine", example: "https://prometheus.example"},
			{name: "engine-option", example: `["token-file=/etc/culprit/engine.token"]`},
			{name: "host-url", example: "https://{host}:7410/"},
		}},
	}
}

// settings returns all settings.
func settings() (all []setting) {
	for _, g := range settingGroups() {
		all = append(all, g.settings...)
	}
	return all
}

// settingOf returns the setting of a flag.
func settingOf(name string) setting {
	for _, s := range settings() {
		if s.name == name {
			return s
		}
	}
	return setting{name: name}
}

// shown returns a value for people, without its secrets.
func (s setting) shown(text string) string {
	for _, without := range []func(string) string{s.mask, s.hide} {
		if without != nil {
			text = without(text)
		}
	}
	return text
}

// hidden is shown in place of a secret.
const hidden = "***"

// maskAddress hides the password of an address, which fields may follow. A name without a password
// is a token, and is hidden too. What is no address is hidden as a whole.
func maskAddress(text string) string {
	address, fields := cutFields(text)
	u, err := url.Parse(address)
	if err != nil {
		return hidden + fields
	}
	if u.User == nil {
		return text
	}
	secret := hidden
	if _, ok := u.User.Password(); ok {
		secret = url.User(u.User.Username()).String() + ":" + hidden
	}
	u.User = nil
	return strings.Replace(u.String(), "//", "//"+secret+"@", 1) + fields
}

// cutFields splits an address from the fields that may follow it, which begin with a space.
func cutFields(text string) (address, fields string) {
	if i := strings.IndexByte(text, ' '); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// hideQuery hides the values in the query of an address, which fields may follow.
func hideQuery(text string) string {
	address, fields := cutFields(text)
	before, query, ok := strings.Cut(address, "?")
	if !ok {
		return text
	}
	query, options, _ := strings.Cut(query, "#")
	var shown []string
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		shown = append(shown, name+"="+hidden)
	}
	if options != "" {
		options = "#" + options
	}
	return before + "?" + strings.Join(shown, "&") + options + fields
}

// hidePath hides the path of an address: whoever has the path of a webhook may use it.
func hidePath(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return hidden
	}
	if strings.Trim(u.Path, "/") == "" {
		return text
	}
	u.Path, u.RawPath = "", ""
	return strings.Replace(u.String(), u.Host, u.Host+"/"+hidden, 1)
}

// hideHeader hides the value of a header: "Name: value".
func hideHeader(text string) string {
	name, _, ok := strings.Cut(text, ":")
	if !ok {
		return hidden
	}
	return name + ": " + hidden
}

// isKey reports whether a flag of `culprit serve` is a key of the configuration file.
func isKey(f *pflag.Flag) bool { return f.Name != configFlag && f.Name != "help" }
