// Package manual writes manual pages of commands, in the format of man(7).
package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page returns the manual page of a command. SOURCE_DATE_EPOCH sets its date, so that builds are
// reproducible; the error says that it is not a number.
func Page(c *cobra.Command, version string) ([]byte, error) {
	when := time.Now()
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH %q is no number of seconds: %w", epoch, err)
		}
		when = time.Unix(seconds, 0).UTC()
	}
	c.InitDefaultHelpCmd()
	c.InitDefaultHelpFlag()
	name := pageName(c)
	var b roff
	b.macro(
		`.TH "` + b.quoted(
			strings.ToUpper(name),
		) + `" "1" "` + when.Format(
			"Jan 2006",
		) + `" "` + b.quoted(
			"culprit "+version,
		) + `" "culprit"`,
	)
	b.macro(".nh") // no hyphenation
	b.macro(".SH NAME")
	b.line(name + " - " + c.Short)
	b.macro(".SH SYNOPSIS")
	b.macro(`\fB` + escapeRoff(c.UseLine()) + `\fP`)
	b.macro(".SH DESCRIPTION")
	long := c.Long
	if long == "" {
		long = c.Short
	}
	b.text(long)
	b.flags("OPTIONS", c.NonInheritedFlags())
	b.flags("OPTIONS INHERITED FROM PARENT COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		b.macro(".SH EXAMPLE")
		b.macro(".EX")
		for line := range strings.Lines(c.Example) {
			b.line(strings.TrimRight(line, "\n"))
		}
		b.macro(".EE")
	}
	var also []string
	if c.HasParent() {
		also = append(also, `\fB`+escapeRoff(pageName(c.Parent()))+`(1)\fP`)
	}
	for _, child := range subcommands(c) {
		also = append(also, `\fB`+escapeRoff(pageName(child))+`(1)\fP`)
	}
	if len(also) > 0 {
		b.macro(".SH SEE ALSO")
		b.macro(strings.Join(also, ", "))
	}
	return []byte(b.String()), nil
}

// WritePages writes the pages of a command and its subcommands into a directory, and returns their
// number. The error is that of Page, or says that a file can't be written.
func WritePages(c *cobra.Command, version, directory string) (n int, err error) {
	page, err := Page(c, version)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(directory, pageName(c)+".1"), page, 0o644); err != nil {
		return 0, err
	}
	n = 1
	for _, child := range subcommands(c) {
		below, err := WritePages(child, version, directory)
		if n += below; err != nil {
			return n, err
		}
	}
	return n, nil
}

// pageName returns the name of the page of a command.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// subcommands returns the subcommands that have pages.
func subcommands(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() && !child.IsAdditionalHelpTopicCommand() {
			out = append(out, child)
		}
	}
	return out
}

// roff builds a page.
type roff struct{ strings.Builder }

// macro writes a line with a macro.
func (b *roff) macro(line string) { b.WriteString(line + "\n") }

// quoted returns a text as an argument of a macro, within double quotes.
func (b *roff) quoted(s string) string { return strings.ReplaceAll(escapeRoff(s), `"`, `\(dq`) }

// line writes a line of text.
func (b *roff) line(s string) {
	s = escapeRoff(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") { // it would be read as a macro
		s = `\&` + s
	}
	b.macro(s)
}

// text writes paragraphs, which are separated by empty lines.
func (b *roff) text(s string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(s), "\n\n") {
		if i > 0 {
			b.macro(".PP")
		}
		for line := range strings.Lines(paragraph) {
			b.line(strings.TrimRight(line, "\n"))
		}
	}
}

// flags writes a section of flags, if there are any.
func (b *roff) flags(title string, all *pflag.FlagSet) {
	if !all.HasAvailableFlags() {
		return
	}
	b.macro(".SH " + title)
	all.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		names := `\fB` + escapeRoff("--"+f.Name) + `\fP`
		if f.Shorthand != "" && f.ShorthandDeprecated == "" {
			names = `\fB` + escapeRoff("-"+f.Shorthand) + `\fP, ` + names
		}
		value := "=" + f.DefValue
		if f.Value.Type() == "string" {
			value = "=" + strconv.Quote(f.DefValue)
		}
		if f.NoOptDefVal != "" {
			value = "[" + value + "]"
		}
		b.macro(".TP")
		b.macro(names + escapeRoff(value))
		b.text(f.Usage)
	})
}

// escapeRoff escapes backslashes and hyphens, which are special in roff.
func escapeRoff(s string) string { return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s) }
