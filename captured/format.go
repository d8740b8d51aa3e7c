package captured

import (
	"strings"
)

// A format is a table with a header: the names that its columns have in any version of its tool.
type format struct {
	kind      Kind
	tool      string
	key       string   // the column that names a row; "" none
	need      []string // columns without which a header is that of another table
	columns   map[string]column
	rest      bool // the last column takes the rest of the line
	sinceBoot bool
}

type column struct {
	name  string
	scale float64
	word  bool
}

// define returns a format. spec lists the columns as HEADER=name, HEADER=name$ for words, and
// HEADER=name*8 for numbers to be multiplied. The first column with $ is the key. A ! after the
// name marks a column that a header must contain.
func define(kind Kind, tool, spec string) format {
	f := format{kind: kind, tool: tool, columns: map[string]column{}}
	for _, word := range strings.Fields(spec) {
		header, name, ok := cutLast(word, "=")
		if !ok {
			name = header
		}
		c := column{scale: 1}
		name, factor, ok := strings.Cut(name, "*")
		if ok {
			c.scale, _ = number(factor)
		}
		if n, ok := strings.CutSuffix(name, "!"); ok {
			name = n
			f.need = append(f.need, strings.TrimSuffix(n, "$"))
		}
		if n, ok := strings.CutSuffix(name, "$"); ok {
			name, c.word = n, true
			if f.key == "" {
				f.key = n
			}
		}
		c.name = name
		f.columns[header] = c
	}
	return f
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i > 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// header returns an empty table when fields are a header of f, and how many columns it knows.
func (f *format) header(fields []string) (*Table, int) {
	count := 0
	for i, name := range fields {
		if _, ok := f.column(name); ok {
			count++
		} else if i-count > 2*len(fields)/5 {
			return nil, 0
		}
	}
	if count < 3 && count < len(fields) || count*10 < len(fields)*6 {
		return nil, 0
	}
	t := newTable(f.kind, f.tool)
	t.rest, t.SinceBoot = f.rest, f.sinceBoot
	known := 0
	for _, name := range fields {
		c, ok := f.column(name)
		if !ok {
			c = column{name: "?" + name, scale: 1, word: true}
		} else {
			known++
		}
		t.addColumn(c.name, c.scale, c.word)
	}
	if !t.Has(f.need...) {
		return nil, 0
	}
	return t, known
}

// column returns the column that a name of a header means. Old versions of iostat print "Device:".
func (f *format) column(name string) (column, bool) {
	c, ok := f.columns[name]
	if !ok && strings.HasSuffix(name, ":") {
		c, ok = f.columns[name[:len(name)-1]]
	}
	return c, ok
}

// findHeader returns an empty table for a header of any format, nil for any other line.
func findHeader(all []format, fields []string) *Table {
	if len(fields) < 2 || len(fields) > 60 {
		return nil
	}
	if fields[0] == "avg-cpu:" {
		fields = fields[1:]
	}
	_, fields = cutTime(fields)
	var best *Table
	most := 0
	for i := range all {
		if t, known := all[i].header(fields); t != nil && known > most {
			best, most = t, known
		}
	}
	return best
}

// fit returns the cells of a row of t. cut reports that cells are missing at its end. A row with
// one word more than a header without a column of words has a name before its numbers.
func (t *Table) fit(fields []string) (when string, cells []string, cut, ok bool) {
	when, fields = cutTime(fields)
	n := len(t.Columns)
	if t.rest && len(fields) > n {
		fields = append(append([]string{}, fields[:n-1]...), strings.Join(fields[n-1:], " "))
	}
	words, named := t.words, false
	if len(fields) == n+1 && t.noWords() {
		if _, is := number(fields[0]); !is {
			words, named = append([]bool{true}, t.words...), true
			n++
		}
	}
	if len(fields) > n || len(fields) < 2 && n > 2 {
		return when, nil, false, false
	}
	numbers := 0
	for i, f := range fields {
		_, is := number(f)
		if is {
			numbers++
		}
		if !is && !words[i] && f != "-" && f != "N/A" {
			return when, nil, false, false
		}
	}
	if numbers == 0 {
		return when, nil, false, false
	}
	if named {
		t.Columns = append([]string{"name"}, t.Columns...)
		t.scales = append([]float64{1}, t.scales...)
		t.words = words
	}
	return when, fields, len(fields) < n, true
}

func (t *Table) noWords() bool {
	for _, w := range t.words {
		if w {
			return false
		}
	}
	return true
}
