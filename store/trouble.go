package store

import (
	"slices"

	"culprit/measure"
)

// size gives about how many bytes a window takes.
func (w *window) size() int {
	n := w.words.bytes
	for _, p := range w.order {
		n += p.size()
	}
	return n
}

func (p *part) size() int {
	return p.extra + cap(p.blob) + 24*len(p.stacks.nodes) + 32*cap(p.ticks) + 16*cap(p.log) + 4*cap(p.heads)
}

// While memory is short each dataset may have its share of half of it, and always a few rows: what one with very many does must not
// show in the others.
const (
	fewRows  = 16
	rowBytes = 256 // of a row that is new to a window, about, with its words and the values of its first minute
)

func (s *Store) share() int { return s.options.Memory / 2 / max(1, len(s.sets)) }

// takes gives the bytes that a dataset takes in all windows.
func (s *Store) takes(id uint32) (bytes int) {
	for _, w := range s.windows() {
		if p := w.parts[id]; p != nil {
			bytes += p.size()
		}
	}
	return bytes
}

// most gives how many rows a part may have while memory is short.
func (s *Store) most(p *part) int {
	return max(fewRows, p.rows.n+(s.share()-s.takes(p.set.desc.ID))/rowBytes)
}

// leftOut says which batches are not taken while memory is full and what is in it may not go: those of datasets that have their share.
func (s *Store) leftOut(ids []uint32, batches []*measure.Batch) []bool {
	left := make([]bool, len(ids))
	for i, id := range ids {
		if left[i] = s.takes(id) >= s.share(); left[i] {
			s.owe(s.sets[id], "left out while the disk took nothing and memory was full", uint64(batches[i].Rows()))
		}
	}
	return left
}

// crowded makes room in memory for a tick when the disk has not taken what is there. It says whether memory is short all the same, and
// whether it is full: then only datasets below their share may add to it.
func (s *Store) crowded() (short, full bool) {
	size := 0
	for _, w := range s.windows() {
		size += w.size()
	}
	if size <= s.options.Memory {
		return false, false
	}
	if s.disk.alive() == nil {
		return true, false // the clerk is at it
	}
	if s.options.KeepOld {
		return true, true
	}
	for size > s.options.Memory {
		freed := s.dropOldest()
		if freed == 0 {
			break
		}
		size -= freed
	}
	return size > s.options.Memory, false
}

// dropOldest lets the oldest go of the dataset that takes most of memory, and gives how many bytes that frees; 0 when no dataset has more
// than its share.
func (s *Store) dropOldest() int {
	takes := map[*set]int{}
	for _, w := range s.windows() {
		for _, p := range w.order {
			takes[p.set] += p.size()
		}
	}
	var most *part
	var in int
	for i, w := range s.past {
		for _, p := range w.order {
			if takes[p.set] > s.share() && (most == nil || takes[p.set] > takes[most.set]) {
				most, in = p, i
			}
		}
	}
	if most == nil {
		return 0
	}
	s.owe(most.set, "dropped from memory while the disk took nothing", uint64(most.samples()))
	for _, l := range most.loss {
		s.owe(most.set, l.loss.Reason, l.loss.Events)
	}
	was := s.past[in]
	rest := was.without(most)
	s.past = slices.Clone(s.past)
	if len(rest.order) == 0 {
		s.past = slices.Delete(s.past, in, in+1)
	} else {
		s.past[in] = rest
	}
	return max(1, was.size()-rest.size())
}

// without gives a closed window without a part and without the words that only this part had; the window itself stays as it is.
func (w *window) without(gone *part) *window {
	out := newWindow(w.seq, w.slot)
	out.last, out.newest = w.last, w.newest
	for _, p := range w.order {
		if p == gone {
			continue
		}
		kept := *p
		kept.inputs = nil
		kept.rows = table{width: p.rows.width, n: p.rows.n, keys: slices.Clone(p.rows.keys)}
		for i := range kept.rows.keys {
			if k := &kept.rows.keys[i]; !p.set.stack[i%p.rows.width] {
				*k = out.words.of(w.words.texts[*k])
			}
		}
		kept.stacks = trie{nodes: slices.Clone(p.stacks.nodes)}
		for i := range kept.stacks.nodes {
			n := &kept.stacks.nodes[i]
			n.symbol, n.module = out.words.of(w.words.texts[n.symbol]), out.words.of(w.words.texts[n.module])
		}
		out.parts[p.set.desc.ID] = &kept
		out.order = append(out.order, &kept)
	}
	return out
}

func (p *part) samples() (n int) {
	out := make([]float64, len(p.ticks))
	for i := range p.cols {
		p.dense(i, 0, len(out), out)
		for _, v := range out {
			n += b2i(!isAbsent(v))
		}
	}
	return n
}

// owe keeps a loss until the dataset's next tick, which carries it.
func (s *Store) owe(d *set, reason string, events uint64) {
	for i := range d.owed {
		if d.owed[i].Reason == reason {
			d.owed[i].Events += events
			return
		}
	}
	d.owed = append(d.owed, measure.Loss{Reason: reason, Events: events})
}

// ready gives nil when the clerk may write. It opens Pebble anew when that has given up, and hands it what memory has kept meanwhile.
func (s *Store) ready() error {
	d := s.disk
	if err := d.room(); err != nil {
		d.mu.Lock()
		torn := d.torn
		d.mu.Unlock()
		if !torn {
			return s.shrink(err)
		}
		if err := d.again(); err != nil {
			return err
		}
		if err := d.room(); err != nil {
			return err
		}
		if err := s.strays(); err != nil {
			return err
		}
	}
	d.mu.Lock()
	behind := d.behind
	d.mu.Unlock()
	if !behind {
		return nil
	}
	// Frames are missing on disk, so the window is closed now and becomes segments.
	s.mu.Lock()
	if s.now != nil {
		s.past, s.now = append(slices.Clip(s.past), s.now), nil
	}
	d.mu.Lock()
	d.behind = false
	d.mu.Unlock()
	s.mu.Unlock()
	return nil
}

// shrink lets the oldest go when the disk is full.
func (s *Store) shrink(full error) error {
	if s.options.KeepOld {
		return full
	}
	var total int64
	s.mu.RLock()
	total = s.documents
	for _, d := range s.sets {
		for _, list := range d.index {
			for _, e := range list {
				total += int64(e.bytes) + entryOverhead
			}
		}
	}
	s.mu.RUnlock()
	if total < 1<<20 {
		return full
	}
	if err := s.retainTo(total - total/10); err != nil {
		return err
	}
	return full
}

// strays erases segments that are on disk and not in the index: Pebble gave up before it had said that they are there.
func (s *Store) strays() error {
	known := map[uint64]bool{}
	s.mu.RLock()
	for _, d := range s.sets {
		for _, list := range d.index {
			for _, e := range list {
				known[e.id] = true
			}
		}
	}
	s.mu.RUnlock()
	var strays []entry
	err := s.disk.scan(prefix(kindIndex), func(key, value []byte) error {
		if e, err := readEntry(key, value); err == nil && !known[e.id] {
			strays = append(strays, e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.erase(strays)
}

// Trouble returns what is wrong now.
func (s *Store) Trouble() []measure.Problem {
	d := s.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []measure.Problem
	if d.dead != nil {
		out = append(out, measure.Problem{Key: "archive: disk", Text: "what is recorded stays in memory for now: " + d.dead.Error()})
	}
	for _, f := range d.faults {
		out = append(out, measure.Problem{Key: "archive: " + f, Text: "the archive is damaged: " + f})
	}
	return out
}
