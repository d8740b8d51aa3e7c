package trace

import (
	"fmt"

	"culprit/lang/gen"
	"culprit/lang/ir"
)

// lossCounts are what a session has reported to its listener as lost.
type lossCounts struct {
	drops   [ir.DropMissed][]uint64 // by kind and CPU, as last reported
	missed  uint64                  // firings that the kernel left out, as last reported
	tooLate uint64                  // ticks that were left out since the last report
}

// reportMissed reports the firings and ticks that were left out since the last call. The kernel's
// counts can be read as long as programs are attached.
func (s *Session) reportMissed(d *delivery) error {
	if err := s.losses.reportLate(d.to); err != nil {
		return err
	}
	m := s.attached.probes.Missed()
	sum := m.Nested + m.Returns
	if sum <= s.losses.missed {
		return nil
	}
	n := sum - s.losses.missed
	s.losses.missed = sum
	return d.to.Drops(ir.DropMissed, 0, n)
}

// reportLate reports the ticks that were left out since the last call.
func (c *lossCounts) reportLate(to Listener) error {
	n := c.tooLate
	c.tooLate = 0
	if n == 0 {
		return nil
	}
	return to.Drops(ir.DropLate, 0, n)
}

// reportDrops reports what programs and speculations dropped since the last call.
func (s *Session) reportDrops(d *delivery) error {
	if err := d.held.lost(d.to); err != nil {
		return err
	}
	m := s.programs.maps.Maps[gen.MapDrops]
	if m == nil {
		return nil
	}
	for kind := range ir.DropMissed {
		var each []uint64
		if err := m.Lookup(uint32(kind), &each); err != nil {
			return fmt.Errorf("read the counts of drops: %w", err)
		}
		if s.losses.drops[kind] == nil {
			s.losses.drops[kind] = make([]uint64, len(each))
		}
		for cpu, sum := range each {
			if n := sum - s.losses.drops[kind][cpu]; n > 0 {
				s.losses.drops[kind][cpu] = sum
				if err := d.to.Drops(kind, cpu, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
