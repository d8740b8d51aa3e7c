package store

import (
	"slices"

	"culprit/measure"
)

// size estimates the bytes of memory of a window.
func (w *window) size() int {
	n := w.words.bytes
	for _, p := range w.order {
		n += p.size()
	}
	return n
}

func (p *part) size() int {
	return p.extra + cap(
		p.blob,
	) + 24*len(
		p.stacks.nodes,
	) + 32*cap(
		p.ticks,
	) + 16*cap(
		p.log,
	) + 4*cap(
		p.heads,
	)
}

// While memory is short each dataset may have its share of half of it, and always a few rows. A
// dataset with very many rows must not affect the others.
const (
	minRows = 16
	// of a new row of a window, approximately, with its words and the values of its first minute
	rowBytes = 256
)

func (s *Store) share() int { return s.options.Memory / 2 / max(1, len(s.datasets.byID)) }

// memoryOf returns the bytes that a dataset takes in all windows.
func (s *Store) memoryOf(id uint32) (bytes int) {
	for _, w := range s.windows() {
		if p := w.parts[id]; p != nil {
			bytes += p.size()
		}
	}
	return bytes
}

// maxRows returns how many rows a part may have while memory is short.
func (s *Store) maxRows(p *part) int {
	return max(minRows, p.rows.n+(s.share()-s.memoryOf(p.set.desc.ID))/rowBytes)
}

// leftOut reports which batches are refused while memory is full and its content must stay: those
// of datasets that have their share.
func (s *Store) leftOut(ids []uint32, batches []*measure.Batch) []bool {
	left := make([]bool, len(ids))
	for i, id := range ids {
		if left[i] = s.memoryOf(id) >= s.share(); left[i] {
			s.addPendingLoss(
				s.datasets.byID[id], "left out while the disk took nothing and memory was full",
				uint64(batches[i].Rows()),
			)
		}
	}
	return left
}

// checkMemory frees memory for a tick when the disk has not taken earlier ones. short means that
// memory is still short; full, that only datasets below their share may add to it.
func (s *Store) checkMemory() (short, full bool) {
	size := 0
	for _, w := range s.windows() {
		size += w.size()
	}
	if size <= s.options.Memory {
		return false, false
	}
	if s.disk.writeError() == nil {
		return true, false // the compactor will free memory
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

// dropOldest drops the oldest part of the dataset that takes most memory, and returns the freed
// bytes; 0 when no dataset exceeds its share.
func (s *Store) dropOldest() int {
	takes := map[*set]int{}
	for _, w := range s.windows() {
		for _, p := range w.order {
			takes[p.set] += p.size()
		}
	}
	var most *part
	var in int
	for i, w := range s.closedWindows {
		for _, p := range w.order {
			if takes[p.set] > s.share() && (most == nil || takes[p.set] > takes[most.set]) {
				most, in = p, i
			}
		}
	}
	if most == nil {
		return 0
	}
	s.addPendingLoss(
		most.set, "dropped from memory while the disk took nothing", uint64(most.samples()),
	)
	for _, l := range most.loss {
		s.addPendingLoss(most.set, l.loss.Reason, l.loss.Events)
	}
	was := s.closedWindows[in]
	rest := was.withoutPart(most)
	s.closedWindows = slices.Clone(s.closedWindows)
	if len(rest.order) == 0 {
		s.closedWindows = slices.Delete(s.closedWindows, in, in+1)
	} else {
		s.closedWindows[in] = rest
	}
	return max(1, was.size()-rest.size())
}

// withoutPart returns a copy of a closed window without a part and without the words that only this
// part uses.
func (w *window) withoutPart(gone *part) *window {
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
			n.symbol, n.module = out.words.of(
				w.words.texts[n.symbol],
			), out.words.of(
				w.words.texts[n.module],
			)
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

// addPendingLoss stores a loss for the dataset's next tick.
func (s *Store) addPendingLoss(d *set, reason string, events uint64) {
	d.pendingLoss = addLoss(d.pendingLoss, measure.Loss{Reason: reason, Events: events})
}

// prepareDisk returns nil when the compactor may write. It reopens Pebble after a failure, and
// closes the window so that data that stayed in memory becomes segments.
func (s *Store) prepareDisk() error {
	d := s.disk
	if err := d.checkWritable(); err != nil {
		d.mu.Lock()
		torn := d.mustReopen
		d.mu.Unlock()
		if !torn {
			return s.freeDiskSpace(err)
		}
		if err := d.reopen(); err != nil {
			return err
		}
		if err := d.checkWritable(); err != nil {
			return err
		}
		if err := s.eraseUnindexed(); err != nil {
			return err
		}
	}
	d.mu.Lock()
	behind := d.framesMissing
	d.mu.Unlock()
	if !behind {
		return nil
	}
	// Frames are missing on disk, so close the window now: it becomes segments.
	s.mu.Lock()
	if s.window != nil {
		s.closedWindows, s.window = append(slices.Clip(s.closedWindows), s.window), nil
	}
	d.mu.Lock()
	d.framesMissing = false
	d.mu.Unlock()
	s.mu.Unlock()
	return nil
}

// freeDiskSpace deletes the oldest data when the disk is full. It returns full.
func (s *Store) freeDiskSpace(full error) error {
	if s.options.KeepOld {
		return full
	}
	var total int64
	s.mu.RLock()
	total = s.documents
	for _, d := range s.datasets.byID {
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

// eraseUnindexed deletes segments on disk that are not in the index: Pebble gave up before it
// confirmed them.
func (s *Store) eraseUnindexed() error {
	known := map[uint64]bool{}
	s.mu.RLock()
	for _, d := range s.datasets.byID {
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

// Problems returns the current problems.
func (s *Store) Problems() []measure.Problem {
	d := s.disk
	d.watchFolder()
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []measure.Problem
	if d.failure != nil {
		out = append(out, measure.Problem{
			Key:  "archive: disk",
			Text: "new data stays in memory for now: " + d.failure.Error(),
		})
	}
	for _, f := range d.damages {
		out = append(out, measure.Problem{
			Key:  "archive: " + f,
			Text: "the archive is damaged: " + f,
		})
	}
	return out
}
