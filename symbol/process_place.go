package symbol

import (
	"bytes"
	"path"
	"strings"
	"time"

	"culprit/kernel/proc"
)

func (ps *Processes) at(pid int, addr, near uint64) Place {
	place, _ := ps.within(pid, addr, near)
	return place
}

// within returns the place of an address, and the functions that are inlined there, innermost
// first, as far as LearnInlined has found them.
func (ps *Processes) within(pid int, addr, near uint64) (place Place, inlined []string) {
	place, spot := ps.spot(pid, addr, near)
	if spot.file == nil {
		return place, nil
	}
	name, from, ok := "", uint64(0), false
	if ps.lean != nil {
		l, known := ps.lean.get(ps.userOf(ps.procs[pid]), spot.file, spot.addr)
		place.Late = !known
		name, from, ok = named(l.name, place.Module), l.from, l.name != ""
		inlined = l.inlined
	} else {
		name, from, ok = spot.file.find(spot.addr)
		name = named(name, place.Module)
	}
	switch {
	case spot.beyond && name == "":
		return Place{Address: addr}, nil
	case ok:
		place.Name, place.Offset = name, from+(addr-near)
	}
	return place, inlined
}

// spot resolves an address without the symbols of its file, and returns where in which file it is.
// Without a file nothing more can be found out.
func (ps *Processes) spot(pid int, addr, near uint64) (Place, Spot) {
	bare := Place{Address: addr}
	p, err := ps.process(pid)
	if err != nil {
		ps.hangs(pid, err)
		return bare, Spot{}
	}
	if i := find(p.maps, near); i < 0 && time.Since(p.read) > maxMapsAge {
		ps.hangs(pid, ps.readAgain(p)) // with an error the maps stay
	}
	p, i := p.lookup(near)
	if i < 0 {
		return bare, Spot{}
	}
	m := &p.maps[i]
	switch {
	case m.Path == "[vdso]":
		return ps.inVDSO(m, addr, near), Spot{}
	case m.Inode != 0 && !strings.HasPrefix(m.Path, "/memfd:"):
		return ps.inFile(p, i, addr, near)
	case m.Path == "" && i > 0 && p.maps[i-1].Inode != 0 && p.maps[i-1].End == m.Start && !m.Exec:
		// The .bss of a file is mapped directly after the file's bytes.
		place, spot := ps.inFile(p, i-1, addr, near)
		if spot.beyond = true; spot.file == nil {
			return bare, Spot{}
		}
		return place, spot
	}
	if c, ok := ps.inCompiled(p, near); ok {
		return Place{Address: addr, Name: c.Name, Offset: addr - c.Start}, Spot{}
	}
	return bare, Spot{}
}

func (ps *Processes) inFile(p *process, i int, addr, near uint64) (Place, Spot) {
	m := &p.maps[i]
	place := Place{Address: addr, Module: clean(path.Base(m.Path)), Base: m.Start}
	o := ps.object(p, i)
	if o == nil {
		key, opened := p.keys[i]
		if !opened {
			ps.hangs(p.pid, proc.ErrHangs)
		}
		_, tried := ps.objects[key]
		place.Late = !tried && key != noFile // no Reader has answered
		return place, Spot{}
	}
	vaddr, ok := o.vaddr(near - m.Start + m.Offset)
	if !ok && near >= m.End { // .bss: by its distance from the mapping's start
		if vaddr, ok = o.vaddr(m.Offset); ok {
			vaddr += near - m.Start
		}
	}
	if !ok {
		return place, Spot{}
	}
	return place, Spot{file: o, addr: vaddr}
}

func (ps *Processes) inVDSO(m *Mapping, addr, near uint64) Place {
	place := Place{Address: addr, Module: "[vdso]", Base: m.Start}
	if ps.vdso == nil {
		ps.vdso = readVDSO()
	}
	if m.End <= 1<<32 {
		return place // a 32-bit program has another vDSO
	}
	if name, from, ok := ps.vdso.find(near - m.Start + m.Offset); ok {
		place.Name, place.Offset = name, from+(addr-near)
	}
	return place
}

// readVDSO reads the symbols of the vDSO.
func readVDSO() *object {
	o := &object{}
	text := memoryOfVDSO()
	if h, err := readHeader(bytes.NewReader(text), int64(len(text))); err == nil {
		o.loads = h.segments()
		_ = o.readSymbols(h)
	}
	return o
}
