package captured

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"culprit/diagnose/kernelmessage"
)

// Limits of what is read and kept.
const (
	MaxFile   = 64 << 20 // bytes of one text
	maxRows   = 200_000  // rows of all tables of a text
	maxTables = 2_000
	maxLine   = 1 << 20 // bytes
	wideLine  = 40      // tokens; a longer line is searched for a whole table
	splitLine = 8       // tokens; a longer line is searched for the starts of rows
)

// Capture is what Read found in one text.
type Capture struct {
	File   string
	Tables []*Table
	Notes  []string // caveats: what was left out
	Hosts  []string
}

// ErrNoTable means that a text contains no table that Read knows.
var ErrNoTable = errors.New("no table of a known tool")

// Read finds the tables in text. name is the file name that evidence quotes. It returns ErrNoTable
// when there is none, and another error when text is longer than MaxFile.
func Read(name, text string) (*Capture, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("%s: %d MB, the limit is %d MB: cut it to the tables", name,
			len(text)>>20, MaxFile>>20)
	}
	r := &reader{Capture: &Capture{File: name}, formats: formats(),
		blocks: blocks(), phrases: phrases(), states: states(),
		messages: kernelmessage.Messages()}
	if !r.json(text) {
		r.lines(withoutTimes(cleaner().Replace(withoutColours(decoded(text)))))
	}
	r.finish()
	if len(r.Tables) == 0 {
		return nil, fmt.Errorf("%s: %w was recognized; culprit reads %s", name, ErrNoTable, Tools)
	}
	return r.Capture, nil
}

// Tools lists the tools whose output Read knows, for messages.
const Tools = "mpstat, vmstat, iostat, sar, sadf -j, nicstat, sysperfstat, intrstat, prstat, " +
	"lockstat, dtrace, netstat, ethtool, dladm, ifconfig, ip -s link, ss, top, ps, pidstat, " +
	"perf report --stdio, perf top, perf stat, iotop -b, dstat, nfsiostat, numastat, lsof, " +
	"slabtop -o, tc -s qdisc, lscpu, " +
	"dmesg, uptime, free, df, iftop -t, iperf3, netperf, mdb ::interrupts and files of /proc"

// A reader reads one text, line by line.
type reader struct {
	*Capture
	formats []format
	blocks  []block
	phrases map[string]string
	states  map[string]string
	// messages are those of the kernel's log.
	messages []kernelmessage.Message
	line     int    // 1 is the first
	last     bool   // no text follows
	command  string // of the last prompt
	host     string
	rows     int
	cpus     int  // of the machine, as the banner says
	cutLine  bool // a line was longer than maxLine
	parts    bool // the line is a part of a line that was split
	elided   bool // lines were left out since the prompt: the first sample is not that since boot

	table *Table            // the table that the next row belongs to; nil none
	seen  map[string]bool   // keys of its current sample
	facts map[string]string // what earlier lines of a block said: the interface of ethtool
	open  map[string]*Table // tables of blocks, by tool
}

func (r *reader) lines(text string) {
	r.facts, r.open = map[string]string{}, map[string]*Table{}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	text = strings.TrimRight(text, " \t\n")
	for len(text) > 0 || r.line == 0 {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		r.line++
		r.last = rest == ""
		if len(line) > maxLine {
			line = line[:maxLine]
			if !r.cutLine {
				r.cutLine = true
				r.Notes = append(r.Notes, fmt.Sprintf("%s: line %d is longer than %d MB: "+
					"its end is not read", r.File, r.line, maxLine>>20))
			}
		}
		r.read(unquote(line))
	}
}

// read reads one line.
func (r *reader) read(line string) {
	if line == "" || r.rows >= maxRows || len(r.Tables) >= maxTables {
		r.blank()
		return
	}
	if command, ok := isPrompt(line); ok {
		r.prompt(command)
		if r.split(line) || len(strings.Fields(line)) < wideLine {
			return
		}
	}
	fields := strings.Fields(line)
	if len(fields) >= wideLine && r.wide(line, fields) {
		return
	}
	r.short(line, fields)
}

// short reads a line that is not the whole output of a tool.
func (r *reader) short(line string, fields []string) {
	if isRule(line) {
		r.elided = r.elided || strings.HasPrefix(line, "..") || strings.HasPrefix(line, "[..")
		return
	}
	for _, block := range r.blocks {
		if block(r, line, fields) {
			return
		}
	}
	if r.row(fields) {
		return
	}
	if h := headerOf(r.formats, fields); h != nil {
		r.begin(h)
		return
	}
	if len(fields) >= splitLine && r.split(line) {
		return
	}
	if t := shapeOf(fields, r); t != nil {
		r.begin(t)
		if r.row(fields) {
			return
		}
	}
	r.prose(line, fields)
}

// isRule reports whether a line draws a rule or leaves lines out.
func isRule(line string) bool { return strings.Trim(line, "-=_.+*~ ") == "" }

// blank ends blocks that end at an empty line.
func (r *reader) blank() { r.stackEnds() }

// prompt begins the output of another command.
func (r *reader) prompt(command string) {
	r.blank()
	r.command, r.table, r.elided = command, nil, false
	if len(command) > 400 {
		r.command = command[:400]
	}
	r.facts, r.open = map[string]string{}, map[string]*Table{}
	if fields := strings.Fields(command); len(fields) > 1 {
		for _, f := range fields[1:] {
			if !strings.HasPrefix(f, "-") {
				r.facts["argument"] = f
				break
			}
		}
	}
	r.commandFacts(command)
}

// prose ends the table when a line of words follows: the next rows belong to another table.
func (r *reader) prose(line string, fields []string) {
	words := 0
	for _, f := range fields {
		if _, is := number(f); !is && len(f) > 2 {
			words++
		}
	}
	if words >= 3 && !strings.Contains(line, "---") {
		r.table = nil
	}
	if len(fields) > 3 && (fields[0] == "Linux" || fields[0] == "SunOS" || fields[0] == "AIX") {
		r.banner(fields)
	}
}

// banner reads "Linux 3.0.13 (host) 01/30/14 _x86_64_" and "SunOS host 5.11 ...".
func (r *reader) banner(fields []string) {
	r.table, r.host, r.cpus = nil, "", 0
	if i := slices.IndexFunc(fields, func(f string) bool { return f == "CPU)" }); i > 0 {
		if n, ok := number(strings.TrimPrefix(fields[i-1], "(")); ok && n < 1<<16 {
			r.cpus = int(n)
		}
	}
	if fields[0] == "SunOS" {
		r.host = fields[1]
	}
	for _, f := range fields[1:] {
		if strings.HasPrefix(f, "(") && strings.HasSuffix(f, ")") && !strings.HasSuffix(f, "CPU)") {
			r.host = strings.Trim(f, "()")
			break
		}
	}
	if r.host != "" {
		r.Hosts = append(r.Hosts, r.host)
	}
}

// begin makes t the table of the next rows. A repeated header continues the table of before.
func (r *reader) begin(t *Table) {
	if old := r.table; old != nil && old.Tool == t.Tool && old.Kind == t.Kind &&
		strings.Join(old.Columns, " ") == strings.Join(t.Columns, " ") {
		if len(old.Rows) > 0 && len(r.seen) > 0 {
			r.nextSample()
		}
		return
	}
	if n := len(r.Tables); r.table != nil && len(r.table.Rows) == 0 && r.Tables[n-1] == r.table {
		r.Tables = r.Tables[:n-1]
	}
	if o := r.earlier(t); o != nil {
		r.table = o
		r.nextSample()
		return
	}
	r.table = t
	t.SinceBoot = t.SinceBoot && !r.elided
	r.register(t)
	r.seen = map[string]bool{}
}

// earlier returns a table of the same columns that the same command printed before: iostat
// alternates between two.
func (r *reader) earlier(t *Table) *Table {
	if r.table == nil {
		return nil
	}
	for i := len(r.Tables) - 1; i >= 0 && i >= len(r.Tables)-40; i-- {
		o := r.Tables[i]
		if o == r.table && o.Kind != t.Kind || o.Command != r.command || o.Host != r.host {
			continue
		}
		if o.Kind == t.Kind && strings.Join(o.Columns, " ") == strings.Join(t.Columns, " ") {
			return o
		}
	}
	return nil
}

// register adds a table to the result.
func (r *reader) register(t *Table) *Table {
	t.File, t.Line, t.Host, t.Command, t.cpus = r.File, r.line, r.host, r.command, r.cpus
	r.Tables = append(r.Tables, t)
	return t
}

// block returns the table of a block parser, a new one when there is none yet.
func (r *reader) block(kind Kind, tool string, columns ...string) *Table {
	key := tool + " " + string(kind)
	if t := r.open[key]; t != nil {
		return t
	}
	t := r.register(newTable(kind, tool, columns...))
	r.open[key] = t
	return t
}

// put adds a row to a table of a block.
func (r *reader) put(t *Table, cells ...string) *Row {
	r.rows++
	return t.add(r.line, "", cells...)
}

func (r *reader) nextSample() {
	r.seen = map[string]bool{}
	r.table.samples++
}

// row adds a line to the current table when it fits.
func (r *reader) row(fields []string) bool {
	t := r.table
	if t == nil || len(t.Columns) == 0 {
		return false
	}
	if t.Kind == Files {
		if fields = r.wrapped(fields); fields == nil {
			return true
		}
	}
	when, cells, cut, ok := t.fit(fields)
	if !ok || cut && !r.last && t.Tool != "free" {
		return false
	}
	key := ""
	for i, word := range t.words {
		if word && i < len(cells) && t.Kind != Paging {
			key = cells[i]
			break
		}
	}
	if t.Kind == Processes || t.Kind == Threads {
		key = cells[max(0, t.index("pid"))] + " " + cells[len(cells)-1]
	}
	if when == averages {
		key = averages + key
	}
	if r.seen[key] {
		r.nextSample()
	}
	r.seen[key] = true
	row := t.add(r.line, when, cells...)
	row.Sample = t.samples
	t.Cut = t.Cut || cut && t.Tool != "free"
	r.rows++
	return true
}

func headerOf(all []format, fields []string) *Table {
	if n := len(fields); n > 2 && fields[n-1] == "on" && fields[n-2] == "Mounted" {
		fields = fields[:n-1]
	}
	return findHeader(all, fields)
}

// finish drops tables without rows and notes what was left out.
func (r *reader) finish() {
	r.stackEnds()
	kept := r.Tables[:0]
	for _, t := range r.Tables {
		if len(t.Rows) > 0 {
			t.samples++
			kept = append(kept, t)
			if t.Cut {
				r.Notes = append(r.Notes, fmt.Sprintf("%s: the last row of %s is cut; the rest "+
					"of the table is used", r.File, t.Tool))
			}
		}
	}
	r.Tables = kept
	if r.rows >= maxRows || len(kept) >= maxTables {
		r.Notes = append(r.Notes, fmt.Sprintf("%s: rows from line %d on are not read: the limit "+
			"is %d rows", r.File, r.line, maxRows))
	}
}
