package yamlfile

import (
	"fmt"
	"strings"
)

// Mistake is one mistake in a file.
type Mistake struct {
	At   Position
	Text string // one clause, with what to do
}

// Error returns FILE:LINE:COLUMN: TEXT.
func (m *Mistake) Error() string { return fmt.Sprintf("%v: %s", m.At, m.Text) }

// String returns FILE:LINE:COLUMN, as compilers print positions. Without a line it is FILE.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Mistakes is the error of a file: at least one mistake, in the order of the file.
type Mistakes []*Mistake

// Error returns one line for each mistake.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, one := range m {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// maxMistakes limits the mistakes that are reported of one file.
const maxMistakes = 50
