package term

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manPage returns the manual page of a command in the format of man(7). SOURCE_DATE_EPOCH sets its
// date, so that builds are reproducible.
func (p Program) manPage(c *cobra.Command) ([]byte, error) {
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
	name := manName(c)
	var b roff
	b.macro(
		`.TH "` + b.quoted(
			strings.ToUpper(name),
		) + `" "1" "` + when.Format(
			"Jan 2006",
		) + `" "` + b.quoted(
			"culprit "+p.Version,
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
		also = append(also, `\fB`+escapeRoff(manName(c.Parent()))+`(1)\fP`)
	}
	for _, child := range manChildren(c) {
		also = append(also, `\fB`+escapeRoff(manName(child))+`(1)\fP`)
	}
	if len(also) > 0 {
		b.macro(".SH SEE ALSO")
		b.macro(strings.Join(also, ", "))
	}
	return []byte(b.String()), nil
}

// manName returns the name of the page of a command.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manChildren returns the subcommands that have pages.
func manChildren(c *cobra.Command) []*cobra.Command {
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
