package term

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

// printer shows one table after another.
type printer interface {
	table(t *view.Table) error
	mean(t *view.Table) error // over all that was shown
}

// screen prints for people: classic columns, the header again each screen.
type screen struct {
	out    io.Writer
	width  int // columns of the terminal
	lines  int // lines of the terminal, 0 = header once
	bold   bool
	time   bool // a first column with the time
	titled bool // a table with a title was shown
	widths []int
	since  int // lines since the last header
	shown  []int

	// Of the table at hand, used again for the next.
	columns []int
	texts   []byte // of the cells, one after the other
	ends    []int  // of each cell in texts
	page    []byte
}

func (s *screen) table(t *view.Table) error {
	var room [8]byte
	return s.print(t, appendClock(room[:0], t.Over.End.AsTime()))
}

// appendClock appends the local time of day as 15:04:05. AppendFormat would read a layout each
// time.
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

func (s *screen) mean(t *view.Table) error {
	s.since = 0
	if t.Title != "" { // it counts all
		return s.print(t, []byte("In all"))
	}
	return s.print(t, []byte("Average"))
}

func (s *screen) print(t *view.Table, when []byte) error {
	titled := t.Title != ""
	if titled {
		s.time, s.since = false, 0
	}
	s.choose(t)
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
				if len(s.texts)-from > s.widths[k] && c.Decimals > 0 && row.Cells[i].Kind == view.IsNumber { // a large number can do without them, as in nicstat
					for less := *c; less.Decimals > 0 && len(s.texts)-from > s.widths[k]; {
						less.Decimals--
						s.texts = less.Append(s.texts[:from], row.Cells[i])
					}
				}
			}
			if c.Cut && k == len(s.shown)-1 {
				s.texts = cut(s.texts, from, max(len(c.Head), s.room(k)))
			}
			// A name of a terminal's line that is full gives way: a line that is too long breaks
			// all below it.
			if last := k == len(s.shown)-1; c.Cut && !last && s.lines > 0 {
				s.texts = cut(s.texts, from, s.widths[k]+max(0, s.room(len(s.shown))+1))
			}
			s.ends = append(s.ends, len(s.texts))
			// Names may widen their column, numbers may not: one large number must not shift all
			// later lines.
			if n := utf8.RuneCount(s.texts[from:]); n > s.widths[k] &&
				(c.Left || row.Cells[i].Kind == view.IsText) {
				if last := k == len(s.shown)-1; !last {
					s.widths[k] = min(n, max(40, s.width/3))
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
		_, err := s.out.Write(s.page)
		return err
	}
	if s.since == 0 || s.lines > 3 && s.since+len(t.Rows) >= s.lines {
		s.head(t)
		s.since = 1
	}
	from := 0
	for r := range t.Rows {
		start := s.begin(when)
		for k, i := range s.shown {
			end := s.ends[r*len(s.shown)+k]
			s.cell(k, &t.Columns[i], s.texts[from:end])
			from = end
		}
		if mark := t.Rows[r].Remark; mark != "" {
			s.page = append(append(s.page, "  <- "...), view.Clean(mark)...)
		}
		s.end(start)
		s.page = append(s.page, '\n')
		s.since++
		for line := range strings.Lines(t.Rows[r].Details) {
			start := len(s.page)
			s.page = cut(
				append(s.page, view.Clean(strings.TrimSuffix(line, "\n"))...), start, s.width,
			)
			s.page = append(s.page, '\n')
			s.since++
		}
	}
	_, err := s.out.Write(s.page)
	return err
}

// choose takes the columns that a line has room for: those that are always there, and of the others
// as many as fit beside them.
func (s *screen) choose(t *view.Table) {
	width := func(c *view.Column) int { return max(c.Width, len(c.Head)) + 1 }
	room := s.width + 1 // no blank stands before the first
	if s.time {
		room -= 9
	}
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Head != "" && c.MinWidth == 0 {
			room -= width(c)
		}
	}
	s.columns = s.columns[:0]
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Head == "" || c.MinWidth > s.width || c.MinWidth > 0 && width(c) > room {
			continue
		}
		if c.MinWidth > 0 {
			room -= width(c)
		}
		s.columns = append(s.columns, i)
	}
}

// room gives how much of a line is left for its last column; with the number of all columns, how
// much beyond the blank behind the last.
func (s *screen) room(last int) int {
	room := s.width
	if s.time {
		room -= 9
	}
	for _, w := range s.widths[:last] {
		room -= w + 1
	}
	return room
}

// cut leaves of the text from there on as many characters, the last one a + where there were more.
func cut(text []byte, from, most int) []byte {
	for i, n, last := from, 0, from; i < len(text); n++ {
		if n == most {
			return append(text[:last], '+')
		}
		_, size := utf8.DecodeRune(text[i:])
		last, i = i, i+size
	}
	return text
}

func (s *screen) head(t *view.Table) {
	if s.bold {
		s.page = append(s.page, "\x1b[1m"...)
	}
	start := s.begin([]byte("Time"))
	for k, i := range s.shown {
		s.cell(k, &t.Columns[i], []byte(t.Columns[i].Head))
	}
	s.end(start)
	if s.bold {
		s.page = append(s.page, "\x1b[0m"...)
	}
	s.page = append(s.page, '\n')
}

// begin starts a line and gives where it starts.
func (s *screen) begin(when []byte) int {
	start := len(s.page)
	if s.time {
		s.page = append(s.page, when...)
		s.blanks(8 - len(when) + 1)
	}
	return start
}

func (s *screen) cell(k int, c *view.Column, text []byte) {
	if k > 0 {
		s.page = append(s.page, ' ')
	}
	pad := s.widths[k] - utf8.RuneCount(text)
	if !c.Left {
		s.blanks(pad)
	}
	s.page = append(s.page, text...)
	if c.Left {
		s.blanks(pad)
	}
}

func (s *screen) blanks(n int) {
	for ; n > 0; n-- {
		s.page = append(s.page, ' ')
	}
}

// end takes the blanks at the end of a line away.
func (s *screen) end(start int) {
	for len(s.page) > start && s.page[len(s.page)-1] == ' ' {
		s.page = s.page[:len(s.page)-1]
	}
}

// lines prints one JSON object an interval, in one line each.
type lines struct{ out io.Writer }

func (p *lines) table(t *view.Table) error {
	_, err := p.out.Write(append(view.AppendJSON(nil, t), '\n'))
	return err
}

func (p *lines) mean(*view.Table) error { return nil }

// comma prints CSV: a head, then a line a row; time is the interval's end, seconds its length.
type comma struct {
	out  io.Writer
	head bool
}

func (p *comma) table(t *view.Table) error {
	w := csv.NewWriter(p.out)
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

func (p *comma) mean(*view.Table) error { return nil }

// asides prints notes and losses on stderr: each note once, each kind of loss when it first comes,
// and its sum at the end.
type asides struct {
	out  io.Writer
	said map[string]bool
	lost map[string]uint64 // events by reason, beyond what was said
	why  []string          // the reasons, in the order of their coming
}

func (a *asides) say(t *view.Table) {
	for _, n := range t.Notes {
		if !a.said[n] {
			a.said[n] = true
			fmt.Fprintln(a.out, "note:", view.Clean(n))
		}
	}
	for _, l := range t.Loss {
		if sum, ok := a.lost[l.Reason]; ok {
			a.lost[l.Reason] = sum + l.Events
			continue
		}
		a.lost[l.Reason] = 0
		a.why = append(a.why, l.Reason)
		fmt.Fprintf(a.out, "lost: %s%s\n", number(l.Events), view.Clean(l.Reason))
	}
}

// end says what was lost after it had been said for the first time.
func (a *asides) end() {
	for _, reason := range a.why {
		if n := a.lost[reason]; n > 0 {
			fmt.Fprintf(a.out, "lost since: %s%s\n", number(n), view.Clean(reason))
		}
	}
}

// number gives a number of events and a colon, nothing when it is not known.
func number(events uint64) string {
	if events == 0 {
		return ""
	}
	return fmt.Sprintf("%d: ", events)
}

// sorted orders the rows by a column, largest number or first text first, or in reverse; unknown
// ones come last either way, and total rows stay where they are.
func sorted(t *view.Table, column int, reverse bool) {
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
