package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"culprit/lang/gen"
	"culprit/symbol"
	"culprit/symbol/unwind"

	"github.com/cilium/ebpf"
)

// unwindTables are the unwind tables that an unwinder has loaded into the kernel. Safe for
// concurrent use. While rows of a file are read, its lock is free between their blocks.
type unwindTables struct {
	rows, rules *ebpf.Map
	most        int // blocks of rows that fit

	mu     sync.Mutex // guards the fields below
	blocks int        // of rows, that are loaded
	// owned are the blocks of each user's files. A user other than root and the caller may have
	// half of most.
	owned  map[uint32]int
	rule   map[unwind.Rule]uint16
	loaded map[*unwind.Table]*loadedTable
	last   uint32 // the greatest number of a table
	full   bool   // a table did not fit
}

// A loadedTable is a table that is in the kernel.
type loadedTable struct {
	number uint32   // 0: the table did not fit
	pages  []uint32 // the second half of the keys of its rows
}

func newUnwindTables(maps map[string]*ebpf.Map) *unwindTables {
	return &unwindTables{
		rows:   maps[gen.MapRows],
		rules:  maps[gen.MapRules],
		most:   int(maps[gen.MapRows].MaxEntries()),
		owned:  map[uint32]int{},
		rule:   map[unwind.Rule]uint16{},
		loaded: map[*unwind.Table]*loadedTable{},
	}
}

// reserveRules assigns number 0 to no rule, and number 1 to rules that are not supported or do not
// fit.
func (t *unwindTables) reserveRules() error {
	t.rule[unwind.Rule{}] = 0
	_, err := t.number(unwind.Rule{CFA: unwind.CFAOther})
	return err
}

// load loads a table into the kernel while read reads it. It returns errTablesFull when the table
// does not fit, and else the error of read. A table with a mistake is loaded up to the mistake.
func (t *unwindTables) load(
	of *unwind.Table, read func(func(uint32, unwind.Rule) error) error,
) error {
	t.mu.Lock()
	t.last++
	l := &tableLoad{t: t, of: of, number: t.last}
	t.mu.Unlock()
	pages := rowPages{emit: l.emit}
	var last unwind.Rule // most rows have the rule of the row before
	lastNumber := uint16(0)
	reading := read(func(pc uint32, rule unwind.Rule) error {
		if rule != last {
			n, err := t.number(rule)
			if err != nil {
				return errors.Join(errTablesFull, err)
			}
			last, lastNumber = rule, n
		}
		return pages.add(pc, lastNumber)
	})
	err := reading
	if err == nil || !isIncomplete(err) {
		if err = pages.end(); err == nil {
			err = l.flush()
		}
	}
	if l.finish(err); err != nil {
		return err
	}
	return reading
}

// A tableLoad is a table that is being loaded.
type tableLoad struct {
	t      *unwindTables
	of     *unwind.Table
	number uint32
	pages  []uint32 // of blocks that are in the kernel; they count in blocks and owned
	keys   [][2]uint32
	blocks [][gen.RowsBlock]byte
}

// loadTogether is how many blocks are loaded by one system call.
const loadTogether = 1024

// emit loads a block, later with others. The error is that of flush.
func (l *tableLoad) emit(page uint32, block *[gen.RowsBlock]byte) error {
	l.keys, l.blocks = append(l.keys, [2]uint32{l.number, page}), append(l.blocks, *block)
	if len(l.keys) < loadTogether {
		return nil
	}
	return l.flush()
}

// flush loads the blocks that were not loaded. The error is errTablesFull.
func (l *tableLoad) flush() error {
	n := len(l.keys)
	if n == 0 {
		return nil
	}
	t, owner := l.t, l.of.Owner
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.blocks+n > t.most || symbol.IsBounded(owner) && t.owned[owner]+n > t.most/2 {
		return errTablesFull
	}
	if _, err := t.rows.BatchUpdate(l.keys, l.blocks, nil); err != nil {
		return errors.Join(errTablesFull, err)
	}
	for _, k := range l.keys {
		l.pages = append(l.pages, k[1])
	}
	t.blocks += n
	t.owned[owner] += n
	l.keys, l.blocks = l.keys[:0], l.blocks[:0]
	return nil
}

// finish records a table, or with an error removes what was loaded of it.
func (l *tableLoad) finish(err error) {
	t := l.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.loaded[l.of] = &loadedTable{number: l.number, pages: l.pages}
		return
	}
	t.unload(l.of, l.number, l.pages)
	for _, k := range l.keys {
		_ = t.rows.Delete(k) // the key may not exist
	}
	t.loaded[l.of], t.full = &loadedTable{}, t.full || errors.Is(err, errTablesFull)
}

// unload removes blocks of a table from the kernel.
func (t *unwindTables) unload(of *unwind.Table, number uint32, pages []uint32) {
	for _, p := range pages {
		_ = t.rows.Delete([2]uint32{number, p}) // cannot fail: the key exists
	}
	t.blocks -= len(pages)
	t.owned[of.Owner] -= len(pages)
}

// isIncomplete reports whether a table is not loaded because rows are missing from it. A table that
// ends with a mistake of its file is loaded.
func isIncomplete(err error) bool {
	for _, e := range []error{
		errTablesFull, symbol.ErrTooLong, symbol.ErrLimit, symbol.ErrUnavailable,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

var errTablesFull = errors.New("the unwind tables do not fit")

// trim removes the tables from the kernel that are not used, and returns them.
func (t *unwindTables) trim(used map[*unwind.Table]bool) (removed []*unwind.Table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, l := range t.loaded {
		if !used[of] && l.number != 0 {
			t.unload(of, l.number, l.pages)
			delete(t.loaded, of)
			removed = append(removed, of)
		}
	}
	return removed
}

// crowded reports whether more than three quarters of the space are used.
func (t *unwindTables) crowded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.blocks > t.most-t.most/4
}

// numberOf returns the number of a table in the kernel; !there: it was removed. 0: it did not fit.
func (t *unwindTables) numberOf(of *unwind.Table) (number uint32, there bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.loaded[of]
	if l == nil {
		return 0, false
	}
	return l.number, true
}

// state returns how many tables were loaded, and whether one did not fit.
func (t *unwindTables) state() (loaded int, full bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.loaded), t.full
}

// number returns the number of a rule. It loads a new rule into the kernel. Beyond gen.Rules rules
// it returns the number of unwind.CFAOther.
func (t *unwindTables) number(r unwind.Rule) (uint16, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.rule[r]; ok {
		return n, nil
	}
	n := len(t.rule)
	if n >= gen.Rules {
		return t.rule[unwind.Rule{CFA: unwind.CFAOther}], nil
	}
	if err := t.rules.Put(uint32(n), ruleBytes(r)); err != nil {
		return 0, fmt.Errorf("load an unwind rule into the kernel: %w", err)
	}
	t.rule[r] = uint16(n)
	return uint16(n), nil
}

// ruleBytes returns a rule as gen.MapRules contains it.
func ruleBytes(r unwind.Rule) (b [gen.RuleSize]byte) {
	b[0] = map[unwind.CFARule]byte{
		unwind.CFANone:   gen.CFANone,
		unwind.CFAEnd:    gen.CFAEnd,
		unwind.CFASP:     gen.CFASP,
		unwind.CFABP:     gen.CFABP,
		unwind.CFAPLT:    gen.CFAPLT,
		unwind.CFAAtSP:   gen.CFAAtSP,
		unwind.CFAAtBP:   gen.CFAAtBP,
		unwind.CFASignal: gen.CFASignal,
		unwind.CFAOther:  gen.CFAOther,
	}[r.CFA]
	b[1] = map[unwind.BPRule]byte{
		unwind.BPSame:  gen.BPSame,
		unwind.BPAtCFA: gen.BPAtCFA,
		unwind.BPAtBP:  gen.BPAtBP,
		unwind.BPLost:  gen.BPLost,
	}[r.BP]
	binary.NativeEndian.PutUint32(b[4:], uint32(r.Offset))
	binary.NativeEndian.PutUint32(b[8:], uint32(r.BPOffset))
	return b
}
