// Package output prints tables: as text for people, as JSON, and as CSV. It also prints notes and
// losses, and sorts and limits rows.
package output

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"culprit/measure"
	"culprit/view"
)

// Printer prints one table after another.
type Printer interface {
	// Table prints the table of an interval. The error is that of the writer.
	Table(t *view.Table) error
	// Mean prints the average of all tables. The error is that of the writer.
	Mean(t *view.Table) error
}

// Text prints the columns of the classic tools, and the header again on each screen.
type Text struct {
	Out    io.Writer
	Width  int // columns of the terminal
	Lines  int // lines of the terminal; 0: the header is printed once
	Bold   bool
	Time   bool // the first column is the time
	titled bool // a table with a title was printed
	widths []int
	since  int // lines since the last header
	shown  []int

	// Memory for the next table.
	columns []int
	texts   []byte // all cells
	ends    []int  // end of each cell in texts
	page    []byte
}

// Table prints the table of an interval. The error is that of the writer.
func (s *Text) Table(t *view.Table) error {
	var clock [8]byte
	return s.print(t, appendClock(clock[:0], t.Over.End.AsTime()))
}

// appendClock appends the local time of day as 15:04:05. It does not parse a layout, as
// AppendFormat does.
func appendClock(b []byte, t time.Time) []byte {
	h, m, s := t.Local().Clock()
	for i, v := range [...]int{h, m, s} {
		if i > 0 {
			b = append(b, ':')
		}
		b = append(b, '0'+byte(v/10), '0'+byte(v%10))
	}
	return b
}

// Mean prints the average of all tables. The error is that of the writer.
func (s *Text) Mean(t *view.Table) error {
	s.since = 0
	if t.Totals {
		return s.print(t, []byte("In all"))
	}
	return s.print(t, []byte("Average"))
}

func (s *Text) print(t *view.Table, when []byte) error {
	titled := t.Title != ""
	if titled {
		s.Time, s.since = false, 0
	}
	s.chooseColumns(t)
	if !slices.Equal(s.columns, s.shown) {
		s.shown, s.widths, s.since = slices.Clone(s.columns), make([]int, len(s.columns)), 0
		for k, i := range s.shown {
			c := &t.Columns[i]
			s.widths[k] = max(c.Width, utf8.RuneCountInString(c.Head))
		}
	}
	s.texts, s.ends = s.texts[:0], s.ends[:0]
	for r := range t.Rows {
		row := &t.Rows[r]
		for k, i := range s.shown {
			c, from := &t.Columns[i], len(s.texts)
			if k == 0 && row.Label != "" {
				s.texts = append(s.texts, view.Clean(row.Label)...)
			} else {
				s.texts = c.Append(s.texts, row.Cells[i])
				// A number that is too wide loses decimals, as in nicstat.
				if len(s.texts)-from > s.widths[k] && c.Decimals > 0 &&
					row.Cells[i].Kind == view.IsNumber {
					for less := *c; less.Decimals > 0 && len(s.texts)-from > s.widths[k]; {
						less.Decimals--
						s.texts = less.Append(s.texts[:from], row.Cells[i])
					}
				}
			}
			if c.Cut && k == len(s.shown)-1 {
				s.texts = Truncate(s.texts, from, max(len(c.Head), s.freeColumns(k)))
			}
			// On a terminal, cut the name if the line would be too long and wrap.
			if last := k == len(s.shown)-1; c.Cut && !last && s.Lines > 0 {
				s.texts = Truncate(s.texts, from, s.widths[k]+max(0, s.freeColumns(len(s.shown))+1))
			}
			s.ends = append(s.ends, len(s.texts))
			// Names may widen their column, numbers may not: one large number must not shift all
			// later lines.
			if n := utf8.RuneCount(s.texts[from:]); n > s.widths[k] &&
				(c.Left || row.Cells[i].Kind == view.IsText) {
				if last := k == len(s.shown)-1; !last {
					s.widths[k] = min(n, max(40, s.Width/3))
					s.since = 0
				}
			}
		}
	}
	s.page = s.page[:0]
	if titled {
		if s.titled {
			s.page = append(s.page, '\n')
		}
		s.titled = true
		s.page = append(append(append(append(s.page, when...), "  "...), t.Title...), '\n')
	}
	if titled && len(t.Rows) == 0 {
		_, err := s.Out.Write(s.page)
		return err
	}
	if s.since == 0 || s.Lines > 3 && s.since+len(t.Rows) >= s.Lines {
		s.header(t)
		s.since = 1
	}
	from := 0
	for r := range t.Rows {
		start := s.beginLine(when)
		for k, i := range s.shown {
			end := s.ends[r*len(s.shown)+k]
			s.cell(k, &t.Columns[i], s.texts[from:end])
			from = end
		}
		if mark := t.Rows[r].Remark; mark != "" {
			s.page = append(append(s.page, "  <- "...), view.Clean(mark)...)
		}
		s.trimLine(start)
		s.page = append(s.page, '\n')
		s.since++
		for line := range strings.Lines(t.Rows[r].Details) {
			start := len(s.page)
			s.page = Truncate(
				append(s.page, view.Clean(strings.TrimSuffix(line, "\n"))...), start, s.Width,
			)
			s.page = append(s.page, '\n')
			s.since++
		}
	}
	_, err := s.Out.Write(s.page)
	return err
}

// Columns returns the indexes of the columns that Text shows at a width.
func Columns(t *view.Table, width int) []int {
	s := Text{Width: width}
	s.chooseColumns(t)
	return s.columns
}

// chooseColumns selects the columns that fit into a line: all with MinWidth 0, and of the others
// those for which there is space.
func (s *Text) chooseColumns(t *view.Table) {
	width := func(c *view.Column) int { return max(c.Width, len(c.Head)) + 1 }
	free := s.Width + 1 // there is no space before the first column
	if s.Time {
		free -= 9
	}
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Head != "" && c.MinWidth == 0 {
			free -= width(c)
		}
	}
	s.columns = s.columns[:0]
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Head == "" || c.MinWidth > s.Width || c.MinWidth > 0 && width(c) > free {
			continue
		}
		if c.MinWidth > 0 {
			free -= width(c)
		}
		s.columns = append(s.columns, i)
	}
}

// freeColumns returns the width that is left in a line for column number last.
func (s *Text) freeColumns(last int) int {
	free := s.Width
	if s.Time {
		free -= 9
	}
	for _, w := range s.widths[:last] {
		free -= w + 1
	}
	return free
}

// Truncate cuts text so that at most limit characters follow position from. The last one becomes
// "+" if some were cut.
func Truncate(text []byte, from, limit int) []byte {
	for i, n, last := from, 0, from; i < len(text); n++ {
		if n == limit {
			return append(text[:last], '+')
		}
		_, size := utf8.DecodeRune(text[i:])
		last, i = i, i+size
	}
	return text
}

func (s *Text) header(t *view.Table) {
	if s.Bold {
		s.page = append(s.page, "\x1b[1m"...)
	}
	start := s.beginLine([]byte("Time"))
	for k, i := range s.shown {
		s.cell(k, &t.Columns[i], []byte(t.Columns[i].Head))
	}
	s.trimLine(start)
	if s.Bold {
		s.page = append(s.page, "\x1b[0m"...)
	}
	s.page = append(s.page, '\n')
}

// beginLine starts a line and returns its position in page.
func (s *Text) beginLine(when []byte) int {
	start := len(s.page)
	if s.Time {
		s.page = append(s.page, when...)
		s.pad(8 - len(when) + 1)
	}
	return start
}

func (s *Text) cell(k int, c *view.Column, text []byte) {
	if k > 0 {
		s.page = append(s.page, ' ')
	}
	pad := s.widths[k] - utf8.RuneCount(text)
	if !c.Left {
		s.pad(pad)
	}
	s.page = append(s.page, text...)
	if c.Left {
		s.pad(pad)
	}
}

func (s *Text) pad(n int) {
	for ; n > 0; n-- {
		s.page = append(s.page, ' ')
	}
}

// trimLine removes trailing spaces.
func (s *Text) trimLine(start int) {
	for len(s.page) > start && s.page[len(s.page)-1] == ' ' {
		s.page = s.page[:len(s.page)-1]
	}
}

// JSON prints one JSON object per interval, on one line.
type JSON struct{ Out io.Writer }

// Table prints the table of an interval. The error is that of the writer.
func (p *JSON) Table(t *view.Table) error {
	_, err := p.Out.Write(append(view.AppendJSON(nil, t), '\n'))
	return err
}

// Mean prints nothing, since JSON has no average. It returns nil, never an error.
func (p *JSON) Mean(*view.Table) error { return nil }

// CSV prints a header, then a line per row. time is the end of the interval, seconds its length.
type CSV struct {
	Out  io.Writer
	head bool
}

// Table prints the table of an interval. The error is that of the writer.
func (p *CSV) Table(t *view.Table) error {
	w := csv.NewWriter(p.Out)
	if !p.head {
		head := []string{"time", "seconds"}
		for _, c := range t.Columns {
			if c.Name != "" {
				head = append(head, c.Name)
			}
		}
		if err := w.Write(head); err != nil {
			return err
		}
		p.head = true
	}
	for _, row := range t.Rows {
		line := []string{t.Over.End.String(), strconv.FormatFloat(t.Over.Seconds(), 'g', 9, 64)}
		for i, c := range t.Columns {
			if c.Name == "" {
				continue
			}
			switch v := row.Cells[i]; {
			case v.Kind == view.IsText || v.Kind == view.IsJSON:
				line = append(line, measure.Escape(v.Text))
			case v.Kind == view.IsNull || v.Num != v.Num:
				line = append(line, "")
			case v.Kind == view.IsBool:
				line = append(line, strconv.FormatBool(v.Num != 0))
			default:
				line = append(line, string(view.AppendNumber(nil, v.Num)))
			}
		}
		if err := w.Write(line); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// Mean prints nothing, since CSV has no average. It returns nil, never an error.
func (p *CSV) Mean(*view.Table) error { return nil }

// Notes prints notes and losses: each note once, each kind of loss when it first occurs, and the
// sum of its later events at the end.
type Notes struct {
	out     io.Writer
	printed map[string]bool
	lost    map[string]uint64 // events by reason, without those that were printed
	reasons []string          // in the order of the first event
}

// NewNotes returns Notes that are printed on out.
func NewNotes(out io.Writer) *Notes {
	return &Notes{out: out, printed: map[string]bool{}, lost: map[string]uint64{}}
}

// Print prints the notes and losses of a table that are new.
func (a *Notes) Print(t *view.Table) {
	for _, n := range t.Notes {
		if !a.printed[n] {
			a.printed[n] = true
			fmt.Fprintln(a.out, "note:", view.Clean(n))
		}
	}
	for _, l := range t.Loss {
		if sum, ok := a.lost[l.Reason]; ok {
			a.lost[l.Reason] = sum + l.Events
			continue
		}
		a.lost[l.Reason] = 0
		a.reasons = append(a.reasons, l.Reason)
		fmt.Fprintf(a.out, "lost: %s%s\n", eventCount(l.Events), view.Clean(l.Reason))
	}
}

// Finish prints the losses after the first ones.
func (a *Notes) Finish() {
	for _, reason := range a.reasons {
		if n := a.lost[reason]; n > 0 {
			fmt.Fprintf(a.out, "lost since: %s%s\n", eventCount(n), view.Clean(reason))
		}
	}
}

// eventCount returns a number of events and a colon; "" if it is unknown.
func eventCount(events uint64) string {
	if events == 0 {
		return ""
	}
	return fmt.Sprintf("%d: ", events)
}

// SortRows sorts the rows by a column: numbers largest first, texts in natural order; reverse
// inverts both. Unknown values come last. Total rows keep their place.
func SortRows(t *view.Table, column int, reverse bool) {
	var at []int
	var rows []view.Row
	for i, r := range t.Rows {
		if !r.Total {
			at = append(at, i)
			rows = append(rows, r)
		}
	}
	less := func(a, b view.Cell) bool {
		if a.Kind == view.IsText && b.Kind == view.IsText {
			return view.NaturalLess(a.Text, b.Text)
		}
		return a.Num > b.Num
	}
	known := func(c view.Cell) bool { return c.Kind != view.IsNull && c.Num == c.Num }
	sort.SliceStable(rows, func(i, j int) bool {
		a, b := rows[i].Cells[column], rows[j].Cells[column]
		switch {
		case known(a) != known(b):
			return known(a)
		case !known(a):
			return false
		case reverse:
			return less(b, a)
		}
		return less(a, b)
	})
	for k, i := range at {
		t.Rows[i] = rows[k]
	}
}

// MoreRows is the note of LimitRows.
const MoreRows = "only the first rows are shown; -n 0 shows all"

// LimitRows keeps the first rows and all totals, and adds a note if rows are left out.
func LimitRows(t *view.Table, limit int) {
	if limit <= 0 {
		return
	}
	kept, left := t.Rows[:0], 0
	for _, r := range t.Rows {
		switch {
		case r.Total:
			kept = append(kept, r)
		case limit > 0:
			limit--
			kept = append(kept, r)
		default:
			left++
		}
	}
	t.Rows = kept
	if left > 0 {
		t.Notes = append(t.Notes, MoreRows)
	}
}
