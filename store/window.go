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

func absent() float64 { return math.Float64frombits(absentBits) }

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
