package command

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"culprit/lang/cpp"
	"culprit/lang/syntax"
	"culprit/symbol"
	"culprit/trace"
)

// A Request is a parsed command line.
type Request struct {
	Parts       []Part
	Tool        string   // name of the ready-made tool that the only part is; "": none
	Args        []string // $1, $2 ...
	Options     []string // name, or name=value
	Commands    []string // run once all is attached; the end of the last one ends the script
	Processes   []int    // the end of the last one ends the script
	List        bool
	Verbose     bool
	CompileOnly bool
	Listing     bool
	Destructive bool
	Zero        bool // descriptions that match nothing are allowed
	JSON        bool
	// Files reads files of processes; nil: this process does.
	Files *symbol.Files

	begun func() // called in a separate goroutine when the clauses run; nil: nothing
}

// A Part is one program of a request.
type Part struct {
	// Flag is n for a program, s for a file, and P, m, f or i for dtrace's short forms: Text then
	// begins with a provider, module, function or number.
	Flag byte
	Text string
}

// A source is the concatenated text of all parts, as it is compiled, with its origins.
type source struct {
	text string
	file string
	name string // $$0
	mode syntax.Mode

	parts    []sourcePart
	origins  trace.Origins // of text that was preprocessed
	warnings syntax.Diagnostics
	included []cpp.Inclusion
}

// A sourcePart is the position of one part in the text.
type sourcePart struct {
	flag     byte
	name     string // as dtrace calls it
	from, to int
}

// text concatenates the parts. Each begins on a new line.
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
			// The line #! of an executable script becomes a comment.
			if strings.HasPrefix(text, "#!") {
				text = "//" + text[2:]
			}
			s.name = p.Text
			if len(r.Parts) == 1 {
				s.file = p.Text
			}
		case 'n':
			if r.Tool != "" {
				s.name, s.file = r.Tool, r.Tool+".d"
			}
		case 'i':
			if _, err := strconv.ParseUint(strings.Fields(p.Text + " x")[0], 10, 32); err != nil {
				return s, fmt.Errorf(
					"-i %q: write the number of a probe; `culprit trace -l` lists them", p.Text,
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

// partName returns the name of a program: its file, or its first description.
func partName(p Part) string {
	if p.Flag == 's' {
		return p.Text
	}
	if i := strings.IndexAny(p.Text, "/{"); i >= 0 {
		return p.Text[:i]
	}
	return p.Text
}

// part returns a description with all four parts from one that ends with its provider, module or
// function (last 0, 1 or 2): "vfs_read /pid/ { ... }" of -f becomes "::vfs_read:/pid/ { ... }".
func part(text string, last int) string {
	head, rest := text, ""
	if i := strings.IndexAny(text, "/{"); i >= 0 {
		head, rest = text[:i], text[i:]
	}
	head = strings.TrimSpace(head)
	have := strings.Count(head, ":")
	return strings.Repeat(":", max(0, last-have)) + head + strings.Repeat(":", 3-last) + rest
}

// scriptMost is how much of a file is read: one byte more than the parser accepts.
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

// settings returns the options by name. The last value of a name counts.
func (r *Request) settings() map[string]string {
	all := map[string]string{}
	for _, o := range r.Options {
		name, value, _ := strings.Cut(o, "=")
		all[strings.TrimSpace(name)] = value
	}
	return all
}
