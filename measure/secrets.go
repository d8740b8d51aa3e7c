package measure

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// mask replaces a secret.
const mask = "***"

// secretWords is a part of the names of secrets, as a regular expression.
const secretWords = `(?:password|passwd|passphrase|pwd|secret|token|api[-_]?key|access[-_]?key|` +
	`private[-_]?key|credentials?)`

// secretPatterns find secrets in a command line whose arguments end with a 0. Group 1 stays, and
// what else matches is masked.
//
// table: forms of secrets
var secretPatterns = []*regexp.Regexp{
	// --db-password=x y, PGPASSWORD=x: an argument of its own, to its end
	regexp.MustCompile(`(?i)((?:^|\x00)-{0,2}[\w.-]*` + secretWords + `[\w.-]*=)[^\x00]+`),
	// --password x: two arguments
	regexp.MustCompile(`(?i)((?:^|\x00)--?[\w-]*` + secretWords + `[\w-]*\x00)[^-\x00][^\x00]*`),
	// the same in a text, such as sh -c "mysql --password=x" or https://host/?token=x&a=b
	regexp.MustCompile(`(?i)([\w.-]*` + secretWords + `[\w.-]*["']?\s*[=:]\s*["']?)` +
		`[^\s\x00&;"'*][^\s\x00&;"']*`),
	regexp.MustCompile(`(?i)([\s]--?[\w-]*` + secretWords + `[\w-]*[ \t]+)[^-\s\x00*][^\s\x00]*`),
	// mysql -px, sshpass -p x
	regexp.MustCompile(`((?:^|[/\s\x00])(?:mysql|mariadb)[\w-]*(?:[\s\x00][^\x00]*?)?` +
		`[\s\x00]-p)[^\s\x00*][^\s\x00]*`),
	regexp.MustCompile(`((?:^|[/\s\x00])sshpass[\s\x00]+-p[\s\x00]*)[^\s\x00*][^\s\x00]*`),
	// curl -u name:x
	regexp.MustCompile(`([\s\x00](?:-u|--user|--proxy-user)[\s\x00=]?[^\s\x00:/]+:)` +
		`[^\s\x00*][^\s\x00]*`),
	// Authorization: Bearer x
	regexp.MustCompile(`(?i)(authorization:\s*(?:\w+\s+)?)[^\s\x00"'*][^\s\x00"']*`),
	// scheme://name:x@host
	regexp.MustCompile(`([A-Za-z][\w+.-]*://[^\s\x00/:@]*:)[^\s\x00/@*][^\s\x00/@]*(?:@)`),
	// tokens with a known beginning: AWS, GitHub, GitLab, Slack, JWT
	regexp.MustCompile(`(\b(?:AKIA|ASIA|gh[opsu]_|github_pat_|glpat-|xox[abprs]-|eyJ))` +
		`[\w./+=-]{8,}`),
}

// A Masker replaces secrets in command lines. The zero Masker knows the usual forms. It is safe for
// concurrent use.
type Masker struct {
	Off  bool             // replaces nothing
	More []*regexp.Regexp // further patterns; of a match, group 1 stays, if there is one
}

// ParseMasks returns the Masker of the texts of a flag: off, or regular expressions in addition to
// the usual forms. The error names the wrong one.
func ParseMasks(texts []string) (m Masker, err error) {
	for _, text := range texts {
		if text == "off" {
			m.Off = true
			continue
		}
		re, err := regexp.Compile(text)
		if err != nil {
			return m, fmt.Errorf("%q is not a regular expression: %w", text, err)
		}
		m.More = append(m.More, re)
	}
	return m, nil
}

// Mask returns a command line without its secrets: arguments that end with a 0, as in
// /proc/PID/cmdline. It returns the same slice if there are none.
//
//	mysql -psesame --host=db  ->  mysql -p*** --host=db
func (m *Masker) Mask(commandLine []byte) []byte {
	if m.Off {
		return commandLine
	}
	if mayHaveSecret(commandLine) {
		for _, p := range secretPatterns {
			commandLine = replaceSecret(p, commandLine)
		}
	}
	for _, p := range m.More {
		commandLine = replaceSecret(p, commandLine)
	}
	return commandLine
}

// mayHaveSecret reports whether one of the usual forms can match: all have one of these bytes or
// words.
func mayHaveSecret(commandLine []byte) bool {
	if bytes.ContainsAny(commandLine, "-=:_") {
		return true
	}
	for _, word := range []string{"AKIA", "ASIA", "eyJ"} {
		if bytes.Contains(commandLine, []byte(word)) {
			return true
		}
	}
	return false
}

// replaceSecret masks the matches of a pattern.
func replaceSecret(p *regexp.Regexp, text []byte) []byte {
	all := p.FindAllSubmatchIndex(text, -1)
	if all == nil {
		return text
	}
	var out []byte
	from := 0
	for _, at := range all {
		keep := at[0]
		if len(at) > 3 && at[3] >= 0 {
			keep = at[3]
		}
		end := at[1]
		out = append(append(out, text[from:keep]...), mask...)
		if end > keep && text[end-1] == '@' && strings.Contains(p.String(), "(?:@)") {
			end--
		}
		from = end
	}
	return append(out, text[from:]...)
}
