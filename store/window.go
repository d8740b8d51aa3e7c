package store

import (
	"math"
	"slices"

	"culprit/measure"
)

// Two NaNs that no measurement produces: a row that a tick lacks, and a row that it has and could
// not measure.
const (
	absentBits  = 0x7FF8_0000_0000_0002
	unknownBits = 0x7FF8_0000_0000_0001
)

func absent() float64  { return math.Float64frombits(absentBits) }
func unknown() float64 { return math.Float64frombits(unknownBits) }

func isAbsent(v float64) bool { return math.Float64bits(v) == absentBits }

// canonical replaces any NaN by unknown.
func canonical(v float64) float64 {
	if v != v {
		return unknown()
	}
	return v
}

// tick is one moment at which a dataset was measured.
type tick struct {
	at      measure.Time // planned, a multiple of the step
	elapsed measure.Span // measured; 0: could not look
	partial bool         // one of several batches could not look, so an absent row is unknown
}

// tickLoss is a loss with the tick of its part.
type tickLoss struct {
	tick int32
	loss measure.Loss
}

// window contains the newest ticks of all datasets in memory, as columns. Guarded by Store.mu; a
// closed window never changes.
type window struct {
	seq              uint64       // of its first frame: its ID on disk
	last             uint64       // of its newest frame
	slot             int64        // number of its windowSpan
	newest           measure.Time // tick
	words            words
	labels           []*labelWords // of the newest batches' dictionaries
	parts            map[uint32]*part
	order            []*part
	epoch            uint32       // number of key frames
	keyFrameAt       measure.Time // tick of the newest key frame
	definedWords     []uint32     // per word: the epoch in which a frame last defined it
	sizeWithManyRows int          // its size after the newest tick with very many new rows
	rowsLeftOut      bool         // the newest tick left out rows because memory was short
}

// part contains the ticks of one dataset in a window, with rows as columns of values over the
// ticks.
type part struct {
	set            *set
	ticks          []tick
	rows           table
	cols           []runs   // per row: finished ticks
	state          []state  // per row: the current tick
	log            []change // changes of the newest ticks that are not in cols yet
	heads          []int32  // per row: 1 + its newest change in log, 0 when it has none
	live           []uint32 // rows of the newest finished tick
	came           []uint32 // rows of the current tick that the previous one lacks
	seen           int      // rows in the current tick
	open           bool     // a tick is in progress
	blob           []byte   // distributions, one after another
	loss           []tickLoss
	notes          []string // distinct
	noteRuns       []noteRun
	newestRun      []int32  // per note: 1 + its newest run
	notesNow       []uint16 // notes of the current tick
	notesBefore    []uint16 // notes of the previous tick
	stacks         trie
	definedNodes   []uint32 // per node: the epoch in which a frame last defined it
	epoch          uint32   // in which a frame last contained all its rows
	extra          int      // bytes of rows and columns, approximately
	rowsOverLimit  uint64   // rows that the current tick left out: more than a dataset may have
	rowsOverMemory uint64   // new rows that the current tick left out while memory was short
	failed         bool     // a batch of the current tick could not look
	looked         bool
	means          map[uint32]int // number of values in the mean of a row of the current tick
	inputs         []*input       // one per batch of a tick, in order
	nextInput      int            // index of the tick's next batch
}

// noteRun is a range of ticks with a note.
type noteRun struct {
	note, first, last int32
}

// maxNotes limits the distinct notes of a part.
const maxNotes = 100

// runs is one row over ticks: from tick starts[i] on its value is values[i].
type runs struct {
	starts []uint16
	values []float64
}

// state is the state of a row while ticks arrive. The value of a distribution is its position in
// the blob.
type state struct {
	now          float64 // of tick seen
	before       float64 // of the previous frame
	seen         int32   // the newest tick that had the row; -1 none
	keyDefinedIn uint32  // the epoch in which a frame last contained its key
}

// maxTicks is the most ticks of a window: they are numbered in 16 bits.
const maxTicks = 4096

func newWindow(seq uint64, slot int64) *window {
	return &window{seq: seq, last: seq, slot: slot, parts: map[uint32]*part{}}
}

func (w *window) part(d *set) *part {
	p := w.parts[d.desc.ID]
	if p == nil {
		p = &part{set: d, rows: table{width: len(d.desc.Query.By)}}
		w.parts[d.desc.ID] = p
		w.order = append(w.order, p)
	}
	return p
}

// begin starts a tick.
func (p *part) begin(at measure.Time) {
	p.ticks = append(p.ticks, tick{at: at})
	p.open, p.failed, p.looked = true, false, false
	p.seen, p.rowsOverLimit, p.rowsOverMemory, p.nextInput = 0, 0, 0, 0
	p.came = p.came[:0]
	p.notesNow, p.notesBefore = p.notesBefore[:0], p.notesNow
	clear(p.means)
}

// put sets the value of a row in the current tick; a second value of the same row is folded into
// the first.
func (p *part) put(row int, fresh bool, v float64) {
	t := int32(len(p.ticks) - 1)
	if fresh {
		p.cols = append(p.cols, runs{})
		p.state = append(p.state, state{seen: -1})
	}
	c := &p.state[row]
	if c.seen == t {
		p.fold(uint32(row), c, v)
		return
	}
	if c.seen < t-1 || c.seen < 0 {
		p.came = append(p.came, uint32(row))
	}
	c.now, c.seen = v, t
	p.seen++
}

func (p *part) fold(row uint32, c *state, v float64) {
	n := 1
	if p.set.desc.Stat.Fold == measure.Mean {
		if p.means == nil {
			p.means = map[uint32]int{}
		}
		n = max(1, p.means[row])
	}
	if c.now != c.now {
		n = 0
	}
	c.now, n = p.set.desc.Stat.Fold.Combine(c.now, n, v)
	c.now = canonical(c.now)
	if p.means != nil {
		p.means[row] = n
	}
}

// change is the value of a row from a tick on. The columns of thousands of rows exceed a
// processor's cache. So changes are appended to a log and applied to the columns many ticks at a
// time.
type change struct {
	value  float64
	before int32 // 1 + the row's previous change, 0 when that is in its column
	tick   uint16
}

const (
	maxLoggedRows = 4096    // a part with more rows has no log: scanning it would cost as much
	maxLogged     = 8 << 10 // changes
)

// push sets the value of a row from the current tick on, and returns an estimate of the bytes of
// memory that it took.
func (p *part) push(row uint32, t int32, v float64) (grown int) {
	if p.rows.n > maxLoggedRows {
		if len(p.log) > 0 {
			grown = p.applyLog()
		}
		return grown + p.cols[row].push(t, v)
	}
	if len(p.log) >= min(16*len(p.cols), maxLogged) {
		grown = p.applyLog()
	}
	for len(p.heads) <= int(row) {
		p.heads = append(p.heads, 0)
	}
	p.log = append(p.log, change{v, p.heads[row], uint16(t)})
	p.heads[row] = int32(len(p.log))
	return grown
}

// applyLog moves the changes to the columns.
func (p *part) applyLog() (grown int) {
	for row, head := range p.heads {
		if head > 0 {
			grown += p.cols[row].extend(p.log, head)
			p.heads[row] = 0
		}
	}
	p.log = p.log[:0]
	return grown
}

// extend appends the changes of a row, of which the newest is head.
func (c *runs) extend(log []change, head int32) (grown int) {
	n, some := len(c.values), 0
	for at := head; at > 0; at = log[at-1].before {
		some++
	}
	if cap(c.values) < n+some {
		size := n + some
		switch {
		case size <= 64:
			for _, s := range [...]int{64, 16, 4} {
				if s >= n+some {
					size = s
				}
			}
		// its size at the end of the window if it grows at the same rate
		case size*windowTicks/(int(log[head-1].tick)+1) < 150:
			size = max(160, size)
		default:
			size = max(304, 2*size*b2i(size > 304))
		}
		grown = c.grow(size)
	}
	c.values, c.starts = c.values[:n+some], c.starts[:n+some]
	for i := n + some; head > 0; {
		i--
		ch := &log[head-1]
		c.values[i], c.starts[i] = ch.value, ch.tick
		head = ch.before
	}
	return grown
}

// dense writes a row over the ticks [from, to) to out, which has that length.
func (p *part) dense(row, from, to int, out []float64) {
	if row < len(p.heads) {
		for at := p.heads[row]; at > 0 && to > from; {
			ch := &p.log[at-1]
			if start := max(int(ch.tick), from); start < to {
				fillWith(out[start-from:to-from], ch.value)
				to = start
			}
			at = ch.before
		}
	}
	p.cols[row].dense(from, to, out[:to-from])
}

// alive reports whether some tick in [from, to) has the row.
func (p *part) alive(row, from, to int) bool {
	if row < len(p.heads) {
		for at := p.heads[row]; at > 0; {
			ch := &p.log[at-1]
			if start := int(ch.tick); start < to {
				if !isAbsent(ch.value) {
					return true
				}
				if to = start; to <= from {
					return false
				}
			}
			at = ch.before
		}
	}
	return p.cols[row].alive(from, to)
}

// runsOf returns a row with all its changes.
func (p *part) runsOf(row int) *runs {
	c := &p.cols[row]
	if row >= len(p.heads) || p.heads[row] == 0 {
		return c
	}
	all := runs{slices.Clip(c.starts), slices.Clip(c.values)}
	all.extend(p.log, p.heads[row])
	return &all
}

// push appends the value of the current tick to the column if it differs from the previous value.
func (c *runs) push(t int32, v float64) int {
	if n := len(c.values); n > 0 && math.Float64bits(c.values[n-1]) == math.Float64bits(v) {
		return 0
	}
	grown := 0
	if len(c.values) == cap(c.values) {
		// Many rows are short-lived; rows that change each second fill a window of 300.
		size := 2 * cap(c.values)
		for _, s := range [...]int{304, 160, 64, 16, 4} {
			if s > cap(c.values) {
				size = s
			}
		}
		grown = c.grow(size)
	}
	c.values, c.starts = append(c.values, v), append(c.starts, uint16(t))
	return grown
}

// windowTicks is how many ticks of one second a window has.
const windowTicks = int(windowSpan / measure.Second)

// grow allocates space for size values and returns the bytes that it took.
func (c *runs) grow(size int) int {
	grown := (size - cap(c.values)) * 10
	values, starts := make([]float64, len(c.values), size), make([]uint16, len(c.values), size)
	copy(values, c.values)
	copy(starts, c.starts)
	c.values, c.starts = values, starts
	return grown
}

// dense writes the row over the ticks [from, to) to out, which has that length.
func (c *runs) dense(from, to int, out []float64) {
	at := to
	for i := len(c.starts) - 1; i >= 0 && at > from; i-- {
		if start := max(int(c.starts[i]), from); start < at {
			fillWith(out[start-from:at-from], c.values[i])
			at = start
		}
	}
	fillWith(out[:at-from], absent())
}

// alive reports whether some tick in [from, to) has the row.
func (c *runs) alive(from, to int) bool {
	i := len(c.starts)
	if i > 0 && int(c.starts[i-1]) >= to {
		i, _ = slices.BinarySearch(c.starts, uint16(to))
	}
	for i--; i >= 0; i-- {
		if !isAbsent(c.values[i]) {
			return true
		}
		if int(c.starts[i]) <= from {
			break
		}
	}
	return false
}

// add adds the rows of a batch to the current tick. limit bounds the rows of the dataset in the
// tick, most those in the window.
func (w *window) add(p *part, b *measure.Batch, limit, most int) {
	if p.nextInput == len(p.inputs) {
		p.inputs = append(p.inputs, &input{})
	}
	in := p.inputs[p.nextInput]
	p.nextInput++
	t := &p.ticks[len(p.ticks)-1]
	for _, l := range b.Loss {
		p.addLoss(l)
	}
	for _, n := range b.Notes {
		p.note(n)
	}
	if b.Over.Span() <= 0 {
		p.failed = true
		return
	}
	p.looked = true
	t.elapsed = max(t.elapsed, b.Over.Span())
	in.plan(p.set, b)
	in.words = w.wordsOf(b.Labels)
	dists := p.set.desc.Stat.Kind == measure.Dists
	if !dists && in.sameKeys(b) && p.seen+len(in.rows) <= limit {
		for i, v := range b.Values {
			if v != v {
				v = unknown()
			}
			p.put(int(in.rows[i]), false, v)
		}
		in.noteMissingField(p)
		return
	}
	for i := range b.Rows() {
		from := b.Key(i)
		if len(in.terms) > 0 && !in.wants(from, b.Labels) {
			continue
		}
		row, fresh := in.row(w, p, b, i, from, limit, most)
		if row < 0 {
			continue
		}
		var v float64
		if dists {
			v = p.keepDist(row, fresh, &b.Dists[i])
		} else if v = b.Values[i]; v != v {
			v = unknown()
		}
		p.put(row, fresh, v)
	}
	in.trim()
	in.noteMissingField(p)
}

func (p *part) addLoss(l measure.Loss) {
	t := int32(len(p.ticks) - 1)
	for i := len(p.loss) - 1; i >= 0 && p.loss[i].tick == t; i-- {
		if p.loss[i].loss.Reason == l.Reason {
			p.loss[i].loss.Events += l.Events
			return
		}
	}
	p.loss = append(p.loss, tickLoss{t, l})
}

// note adds a caveat to the current tick.
func (p *part) note(n string) {
	i := slices.Index(p.notes, n)
	if i < 0 {
		if i = len(p.notes); i == maxNotes {
			return
		}
		p.notes, p.newestRun = append(p.notes, n), append(p.newestRun, 0)
	}
	if !slices.Contains(p.notesNow, uint16(i)) {
		p.notesNow = append(p.notesNow, uint16(i))
	}
}

// endNotes ends the notes of the current tick.
func (p *part) endNotes() {
	t := int32(len(p.ticks) - 1)
	for _, n := range p.notesNow {
		if k := p.newestRun[n] - 1; k >= 0 && p.noteRuns[k].last+1 == t {
			p.noteRuns[k].last = t
			continue
		}
		p.noteRuns = append(p.noteRuns, noteRun{int32(n), t, t})
		p.newestRun[n] = int32(len(p.noteRuns))
	}
}

// input converts the batches of one source to rows of a part. It remembers the row of each key of
// the previous batch, because most keys come again in the same order.
type input struct {
	by      []string
	columns []int // per field of the dataset: its column in the batch; -1: the batch lacks it
	terms   []measure.Term
	at      []int
	missing string
	planned bool

	keys      []measure.Label // of the previous batch, row after row
	rows      []int32
	next      int             // the row of the previous batch that most likely comes next
	fresh     []measure.Label // of this batch
	freshRows []int32
	words     *labelWords     // of the batch's dictionary
	texts     []string        // of the previous batch's dictionary
	frames    []measure.Frame // of the previous batch
	nodes     []uint32        // of each of them: 1 + node
	chain     []int32
	key       []uint32
}

// extends reports whether long begins with the elements of short. Equal addresses suffice.
func extends[T comparable](short, long []T) bool {
	n := len(short)
	return n == 0 || len(long) >= n && (&long[0] == &short[0] || slices.Equal(long[:n], short))
}

func (in *input) plan(d *set, b *measure.Batch) {
	in.next, in.fresh, in.freshRows = 0, in.fresh[:0], in.freshRows[:0]
	// A dictionary is append-only; rarely a source starts a new one, and then the remembered rows
	// are wrong. Readers may keep a dictionary, so its content at one address never changes.
	if !extends(in.texts, b.Labels) {
		in.keys, in.rows = in.keys[:0], in.rows[:0]
	}
	in.texts = b.Labels
	// The same holds for frames.
	if !extends(in.frames, b.Frames) {
		in.keys, in.rows, in.nodes = in.keys[:0], in.rows[:0], in.nodes[:0]
	}
	in.frames = b.Frames
	if in.planned && slices.Equal(in.by, b.By) {
		return
	}
	in.planned, in.by, in.missing = true, slices.Clone(b.By), ""
	in.columns, in.terms, in.at = nil, nil, nil
	in.keys, in.rows = in.keys[:0], in.rows[:0]
	for _, f := range d.desc.Query.By {
		c := slices.Index(b.By, f)
		if c < 0 {
			in.missing = f
		}
		in.columns = append(in.columns, c)
	}
	for _, t := range d.desc.Query.Where {
		if c := slices.Index(b.By, t.Field); c >= 0 {
			in.terms, in.at = append(in.terms, t), append(in.at, c)
		} // otherwise the rows were filtered and folded before they came here
	}
	in.key = make([]uint32, len(in.columns))
}

// sameKeys reports whether a batch has the keys of the previous one, and all of them are rows.
func (in *input) sameKeys(b *measure.Batch) bool {
	return len(in.terms) == 0 && len(in.rows) == len(b.Values) && slices.Equal(in.keys, b.Keys)
}

func (in *input) noteMissingField(p *part) {
	if in.missing != "" {
		p.note(string(p.set.desc.Query.Stat) + " was measured without the field " + in.missing)
	}
}

func (in *input) wants(key []measure.Label, labels []string) bool {
	for i, t := range in.terms {
		if !t.Match(labels[key[in.at[i]]]) {
			return false
		}
	}
	return true
}

// row finds the row of a key of the batch; -1, and counted as lost, when it exceeds a limit.
func (in *input) row(
	w *window,
	p *part,
	b *measure.Batch,
	i int,
	from []measure.Label,
	limit, most int,
) (int, bool) {
	width := len(from)
	if n := in.next; n < len(in.rows) && slices.Equal(in.keys[n*width:(n+1)*width], from) {
		in.next++
		row := int(in.rows[n])
		if p.seen >= limit && p.state[row].seen != int32(len(p.ticks)-1) {
			p.rowsOverLimit++
			return -1, false
		}
		in.remember(from, row)
		return row, false
	}
	row, known := -1, true
	grow := p.seen < limit && p.rows.n < most // otherwise the words of a refused row would stay
	for j, c := range in.columns {
		ok := true
		switch {
		case c < 0:
			in.key[j] = w.words.of("")
		case p.set.stack[j]:
			in.key[j], ok = in.stack(w, p, b.Frames, from[c], grow)
		default:
			in.key[j], ok = in.word(w, b.Labels, from[c], grow)
		}
		known = known && ok
	}
	if known {
		row = p.rows.find(in.key)
	}
	if p.seen >= limit && (row < 0 || p.state[row].seen != int32(len(p.ticks)-1)) {
		p.rowsOverLimit++
		return -1, false
	}
	fresh := false
	if row < 0 && p.rows.n >= most {
		p.rowsOverMemory++
		return -1, false
	}
	if row < 0 {
		row, fresh = p.rows.row(in.key)
		p.extra += 4*len(in.key) + 8 + 96
	}
	in.remember(from, row)
	// The row after this one most likely follows again.
	for n := in.next; n < min(in.next+64, len(in.rows)); n++ {
		if int(in.rows[n]) == row {
			in.next = n + 1
			break
		}
	}
	return row, fresh
}

func (in *input) remember(from []measure.Label, row int) {
	in.fresh, in.freshRows = append(in.fresh, from...), append(in.freshRows, int32(row))
}

// trim makes the rows of this batch those that the next one is compared with.
func (in *input) trim() {
	in.keys, in.fresh = in.fresh, in.keys
	in.rows, in.freshRows = in.freshRows, in.rows
}

// labelWords maps the labels of a dictionary to words. The batches of a source share a dictionary,
// and so do all inputs: with 10,000 processes it has 100,000 labels, and a hundred datasets use it.
type labelWords struct {
	texts []string // of the labels
	words []uint32 // label -> 1 + word; 0: not looked up yet
	used  uint64   // frame of the window in which a batch last had it
}

// maxLabelWords limits the known dictionaries: there is one per source, and some sources start a
// new one each tick.
const maxLabelWords = 8

// wordsOf returns the words of a dictionary. A dictionary that grew since, or is older than the
// known one, is the same.
func (w *window) wordsOf(labels []string) *labelWords {
	if len(labels) == 0 {
		return &labelWords{}
	}
	oldest := 0
	for i, d := range w.labels {
		n := min(len(labels), len(d.texts))
		if &labels[0] == &d.texts[0] || slices.Equal(labels[:n], d.texts[:n]) {
			if d.used = w.last; len(labels) > n {
				d.texts = labels
			}
			return d
		}
		if d.used < w.labels[oldest].used {
			oldest = i
		}
	}
	d := &labelWords{texts: labels, used: w.last}
	if len(w.labels) < maxLabelWords {
		w.labels = append(w.labels, d)
	} else {
		w.labels[oldest] = d
	}
	return d
}

// word returns the word of a label; false when there is none and grow is false.
func (in *input) word(w *window, labels []string, l measure.Label, grow bool) (uint32, bool) {
	d := in.words
	if n := int(l) + 1 - len(d.words); n > 0 {
		d.words = append(d.words, make([]uint32, n)...)
	}
	if n := d.words[l]; n != 0 && w.words.texts[n-1] == labels[l] {
		return n - 1, true
	}
	n, ok := w.words.at[labels[l]]
	if !ok {
		if !grow {
			return 0, false
		}
		n = w.words.of(labels[l])
	}
	d.words[l] = n + 1
	return n, true
}

// stack returns the node of a chain of frames; false when there is none and grow is false.
func (in *input) stack(
	w *window,
	p *part,
	frames []measure.Frame,
	l measure.Label,
	grow bool,
) (uint32, bool) {
	if n := len(frames) - len(in.nodes); n > 0 {
		in.nodes = append(in.nodes, make([]uint32, n)...)
	}
	in.chain = in.chain[:0]
	parent := int32(-1)
	for at := int32(l); at >= 0 && int(at) < len(frames); at = frames[at].Parent {
		if len(in.chain) == maxStackDepth {
			break
		}
		if n := in.nodes[at]; n > 0 {
			parent = int32(n - 1)
			break
		}
		in.chain = append(in.chain, at)
	}
	for _, at := range slices.Backward(in.chain) {
		f := &frames[at]
		if !grow {
			symbol, known := w.words.at[f.Symbol]
			module, also := w.words.at[f.Module]
			n, there := p.stacks.find(node{parent, symbol, module, f.Offset})
			if !known || !also || !there {
				return 0, false
			}
			parent = int32(n)
			continue
		}
		n := p.stacks.of(node{parent, w.words.of(f.Symbol), w.words.of(f.Module), f.Offset})
		parent = int32(n)
		// otherwise the chain was cut and does not start at a root
		if len(in.chain) < maxStackDepth {
			in.nodes[at] = n + 1
		}
	}
	if parent < 0 { // an empty chain
		parent = int32(p.stacks.of(node{-1, w.words.of(""), w.words.of(""), 0}))
	}
	return uint32(parent), true
}

// maxStackDepth is the most frames of a stack that are stored, the innermost ones.
const maxStackDepth = 1024
