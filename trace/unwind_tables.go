package trace

import (
	"encoding/binary"
	"errors"
	"fmt"

	"culprit/lang/gen"
	"culprit/symbol"

	"github.com/cilium/ebpf"
)

// unwindTables are the unwind tables that an unwinder has loaded into the kernel. The unwinder's mu
// guards it.
type unwindTables struct {
	rows, rules *ebpf.Map
	most        int // blocks of rows that fit
	blocks      int // of rows, that are loaded
	rule        map[symbol.UnwindRule]uint16
	loaded      map[*symbol.UnwindTable]*loadedTable
	last        uint32 // the greatest number of a table
	full        bool   // a table did not fit
}

// A loadedTable is a table that is in the kernel.
type loadedTable struct {
	number uint32   // 0: the table did not fit
	pages  []uint32 // the second half of the keys of its rows
}

func newUnwindTables(maps map[string]*ebpf.Map) unwindTables {
	return unwindTables{
		rows:   maps[gen.MapRows],
		rules:  maps[gen.MapRules],
		most:   int(maps[gen.MapRows].MaxEntries()),
		rule:   map[symbol.UnwindRule]uint16{},
		loaded: map[*symbol.UnwindTable]*loadedTable{},
	}
}

// reserveRules assigns number 0 to no rule, and number 1 to rules that are not supported or do not
// fit.
func (t *unwindTables) reserveRules() error {
	t.rule[symbol.UnwindRule{}] = 0
	_, err := t.number(symbol.UnwindRule{CFA: symbol.CFAOther})
	return err
}

// load loads a table into the kernel while read reads it. It returns errTablesFull when the table
// does not fit, and else the error of read. A table with a mistake is loaded up to the mistake.
func (t *unwindTables) load(
	of *symbol.UnwindTable, read func(func(uint32, symbol.UnwindRule) error) error,
) error {
	l := &loadedTable{}
	const batch = 1024
	var keys [][2]uint32
	var blocks [][gen.RowsBlock]byte
	flush := func() error {
		if len(keys) == 0 {
			return nil
		}
		if t.blocks+len(l.pages)+len(keys) > t.most {
			return errTablesFull
		}
		if _, err := t.rows.BatchUpdate(keys, blocks, nil); err != nil {
			return errors.Join(errTablesFull, err)
		}
		for _, k := range keys {
			l.pages = append(l.pages, k[1])
		}
		keys, blocks = keys[:0], blocks[:0]
		return nil
	}
	number := t.last + 1
	pages := rowPages{emit: func(page uint32, block *[gen.RowsBlock]byte) error {
		keys, blocks = append(keys, [2]uint32{number, page}), append(blocks, *block)
		if len(keys) < batch {
			return nil
		}
		return flush()
	}}
	var last symbol.UnwindRule // most rows have the rule of the row before
	lastNumber := uint16(0)
	reading := read(func(pc uint32, rule symbol.UnwindRule) error {
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
	if err == nil || !errors.Is(err, errTablesFull) && !errors.Is(err, symbol.ErrTooLong) {
		if err = pages.end(); err == nil {
			err = flush()
		}
	}
	t.loaded[of] = l
	if err != nil {
		for _, p := range l.pages {
			_ = t.rows.Delete([2]uint32{number, p}) // cannot fail: the key exists
		}
		for _, k := range keys {
			_ = t.rows.Delete(k) // the key may not exist
		}
		l.pages, t.full = nil, t.full || errors.Is(err, errTablesFull)
		return err
	}
	t.last, l.number = number, number
	t.blocks += len(l.pages)
	return reading
}

var errTablesFull = errors.New("the unwind tables do not fit")

// remove removes a table from the kernel.
func (t *unwindTables) remove(of *symbol.UnwindTable, l *loadedTable) {
	for _, p := range l.pages {
		_ = t.rows.Delete([2]uint32{l.number, p}) // cannot fail: the key exists
	}
	t.blocks -= len(l.pages)
	delete(t.loaded, of)
}

// number returns the number of a rule. It loads a new rule into the kernel. Beyond gen.Rules rules
// it returns the number of symbol.CFAOther.
func (t *unwindTables) number(r symbol.UnwindRule) (uint16, error) {
	if n, ok := t.rule[r]; ok {
		return n, nil
	}
	n := len(t.rule)
	if n >= gen.Rules {
		return t.rule[symbol.UnwindRule{CFA: symbol.CFAOther}], nil
	}
	if err := t.rules.Put(uint32(n), ruleBytes(r)); err != nil {
		return 0, fmt.Errorf("load an unwind rule into the kernel: %w", err)
	}
	t.rule[r] = uint16(n)
	return uint16(n), nil
}

// ruleBytes returns a rule as gen.MapRules contains it.
func ruleBytes(r symbol.UnwindRule) (b [gen.RuleSize]byte) {
	b[0] = map[symbol.CFARule]byte{
		symbol.CFANone:   gen.CFANone,
		symbol.CFAEnd:    gen.CFAEnd,
		symbol.CFASP:     gen.CFASP,
		symbol.CFABP:     gen.CFABP,
		symbol.CFAPLT:    gen.CFAPLT,
		symbol.CFAAtSP:   gen.CFAAtSP,
		symbol.CFAAtBP:   gen.CFAAtBP,
		symbol.CFASignal: gen.CFASignal,
		symbol.CFAOther:  gen.CFAOther,
	}[r.CFA]
	b[1] = map[symbol.BPRule]byte{
		symbol.BPSame:  gen.BPSame,
		symbol.BPAtCFA: gen.BPAtCFA,
		symbol.BPAtBP:  gen.BPAtBP,
		symbol.BPLost:  gen.BPLost,
	}[r.BP]
	binary.NativeEndian.PutUint32(b[4:], uint32(r.Offset))
	binary.NativeEndian.PutUint32(b[8:], uint32(r.BPOffset))
	return b
}
