package command

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"culprit/lang/cpp"
	"culprit/lang/syntax"
	"culprit/trace"
)

// A Request is what a command line asks for.
type Request struct {
	Parts       []Part
	Args        []string // $1, $2 ...
	Options     []string // name, or name=value
	Commands    []string // started once all is attached; the end of the last one ends the script
	Processes   []int    // the end of the last one ends the script
	List        bool
	Verbose     bool
	CompileOnly bool
	Listing     bool
	Destructive bool
	Zero        bool // descriptions that match nothing are allowed
	JSON        bool

	begun func() // called in a goroutine of its own once the script runs; nil: nothing
}

// A Part is one program of a request.
type Part struct {
	// n: a program; s: the file of one; P, m, f, i: the start of one, in dtrace's short form
	Flag byte
	Text string
}

// A source is the text of all parts behind one another, as it is compiled, and what belongs to it.
type source struct {
	text string
	file string
	name string // $$0
	mode syntax.Mode

	parts    []sourcePart
	origins  trace.Origins // where the text comes from, if the preprocessor made it
	warnings syntax.Diagnostics
	included []cpp.Inclusion
}

// A sourcePart is where in the text one part stands.
type sourcePart struct {
	flag     byte
	name     string // as dtrace calls it
	from, to int
}

// text puts the parts together. Several programs are one text, each from a new line.
func (r *Request) text(in io.Reader) (source, error) {
	s := source{name: "culprit", mode: syntax.Mode{Last: syntax.PartName}}
	preprocessor, err := r.preprocessor()
	if err != nil {
		return s, err
	}
	var b strings.Builder
	for _, p := range r.Parts {
		text := p.Text
		switch p.Flag {
		case 's':
			script, err := readScript(p.Text, in)
			if err != nil {
				return s, err
			}
			text = string(script)
			// the line that starts us when the script is run by itself
			if strings.HasPrefix(text, "#!") {
				text = "//" + text[2:]
			}
			s.name = p.Text
			if len(r.Parts) == 1 {
				s.file = p.Text
			}
		case 'i':
			if _, err := strconv.ParseUint(strings.Fields(p.Text + " x")[0], 10, 32); err != nil {
				return s, fmt.Errorf(
					"-i %q: give the number of a probe; `culprit trace -l` shows them", p.Text,
				)
			}
		case 'P':
			text = part(p.Text, 0)
		case 'm':
			text = part(p.Text, 1)
		case 'f':
			text = part(p.Text, 2)
		}
		if preprocessor != nil {
			name := ""
			if p.Flag == 's' {
				name = p.Text
			}
			made, ds := cpp.Run(name, text, *preprocessor)
			if len(ds) > 0 {
				return s, ds
			}
			text = made.Text
			s.origins = append(s.origins, trace.Origin{From: b.Len(), Source: made})
			s.warnings = append(s.warnings, made.Warnings...)
			s.included = append(s.included, made.Included...)
		}
		if t := strings.TrimRight(text, " \t\n"); p.Flag != 's' && !strings.HasSuffix(t, "}") &&
			!strings.HasSuffix(t, ";") {
			text = t + ";" // another program may follow, and a clause without a body must end
		}
		s.parts = append(s.parts, sourcePart{p.Flag, partName(p), b.Len(), b.Len() + len(text) + 1})
		b.WriteString(text + "\n")
	}
	s.text = strings.TrimSuffix(b.String(), "\n")
	return s, nil
}

// partName returns what a program is called: the name of its file, or its first description.
func partName(p Part) string {
	if p.Flag == 's' {
		return p.Text
	}
	if i := strings.IndexAny(p.Text, "/{"); i >= 0 {
		return p.Text[:i]
	}
	return p.Text
}

// part makes a four-part description of one that ends with its provider, module or function:
// "vfs_read /pid/ { ... }" of -f is ":::" less what it has.
func part(text string, last int) string {
	head, rest := text, ""
	if i := strings.IndexAny(text, "/{"); i >= 0 {
		head, rest = text[:i], text[i:]
	}
	head = strings.TrimSpace(head)
	have := strings.Count(head, ":")
	return strings.Repeat(":", max(0, last-have)) + head + strings.Repeat(":", 3-last) + rest
}

// scriptMost is the longest file that is read: what the parser takes, and a byte more, which it
// then refuses.
const scriptMost = syntax.MaxText + 1

func readScript(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(in, scriptMost))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the script: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, scriptMost))
	if err != nil {
		return nil, fmt.Errorf("read the script: %w", err)
	}
	return b, nil
}

// settings reads options: name, or name=value. The last of a name counts.
func (r *Request) settings() map[string]string {
	all := map[string]string{}
	for _, o := range r.Options {
		name, value, _ := strings.Cut(o, "=")
		all[strings.TrimSpace(name)] = value
	}
	return all
}
