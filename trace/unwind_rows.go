package trace

import (
	"encoding/binary"
	"math"

	"culprit/lang/gen"
)

// rowPages packs the rows of a table into the blocks of MapRows. It calls emit with each block and
// the second half of its key. The block is valid until emit returns. An error of emit is returned.
type rowPages struct {
	emit   func(page uint32, block *[gen.RowsBlock]byte) error
	begun  bool
	number uint32     // of the current page
	rule   uint16     // of the row that was added last
	page   []rowEntry // rows of the current page
	some   []rowEntry // buffer for the rows of a block
	block  [gen.RowsBlock]byte
}

// A rowEntry is a row: its offset in the page, and its rule.
type rowEntry struct{ at, rule uint16 }

// add adds a row, whose pc is greater than those of earlier rows.
func (p *rowPages) add(pc uint32, rule uint16) error {
	number := pc >> gen.RowsPageBits
	if !p.begun || number != p.number {
		if err := p.upTo(number); err != nil {
			return err
		}
		p.begun, p.number, p.page = true, number, append(p.page[:0], rowEntry{0, p.rule})
	}
	e := rowEntry{uint16(pc & (gen.RowsPage - 1)), rule}
	if e.at == 0 {
		p.page = p.page[:0]
	}
	p.page, p.rule = append(p.page, e), rule
	return nil
}

// end emits the last page.
func (p *rowPages) end() error {
	if !p.begun {
		return nil
	}
	return p.put(p.number, p.page)
}

// upTo emits the current page, and the pages up to number that one function covers completely.
func (p *rowPages) upTo(number uint32) error {
	if !p.begun {
		return nil
	}
	if err := p.put(p.number, p.page); err != nil {
		return err
	}
	if p.rule == 0 {
		return nil
	}
	for within := p.number + 1; within < number; within++ {
		if err := p.put(within, append(p.page[:0], rowEntry{0, p.rule})); err != nil {
			return err
		}
	}
	return nil
}

// put emits the blocks of a page.
func (p *rowPages) put(number uint32, page []rowEntry) error {
	if len(page) == 1 && page[0].rule == 0 {
		return nil // no row covers the page
	}
	for n := uint32(0); len(page) > 0; n++ { // each pass fills a whole block
		some := page
		if len(page) > gen.RowsEntries {
			p.some = append(p.some[:0], page[:gen.RowsEntries]...)
			some = p.some
			next := &some[gen.RowsEntries-1]
			page = page[gen.RowsEntries-1:]
			if next.rule = gen.RowsChain; n+1 == gen.RowsBlocks {
				next.rule, page = 0, nil
			}
		} else {
			page = nil
		}
		for i := range gen.RowsEntries {
			e := rowEntry{at: math.MaxUint16}
			if i < len(some) {
				e = some[i]
			}
			binary.NativeEndian.PutUint16(p.block[4*i:], e.at)
			binary.NativeEndian.PutUint16(p.block[4*i+2:], e.rule)
		}
		if err := p.emit(number<<4|n, &p.block); err != nil {
			return err
		}
	}
	return nil
}
