package symbol

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"culprit/kernel/proc"
)

// A fileKey identifies a file and its version: it differs after a write or a change of owner.
type fileKey struct {
	dev, ino    uint64
	size, mtime int64
	owner       uint32
}

// noFile is the key of a mapping whose file could not be opened. It is not tried again.
//
// table: no file has this size
var noFile = fileKey{size: -1}

// holdFiles opens the files that a process executes and that were not read yet.
func (ps *Processes) holdFiles(p *process) {
	for i := range p.maps {
		ps.holdFile(p, i)
	}
}

// holdFile opens the file of one mapping if the process executes it and it was not read yet.
func (ps *Processes) holdFile(p *process, i int) {
	m := &p.maps[i]
	if _, known := p.keys[i]; known || !m.Exec || m.Inode == 0 || len(ps.held) >= mostHeldOpen {
		return
	}
	f, key, err := ps.open(p, m)
	if err != nil {
		return
	}
	p.keys[i] = key
	ps.holdOpen(key, f)
}

// mostHeldOpen is how many files are held until their symbols are read.
const mostHeldOpen = 256

// holdOpen keeps a file open until its symbols are read, or closes it.
func (ps *Processes) holdOpen(key fileKey, f *os.File) {
	_, read := ps.objects[key]
	if _, have := ps.held[key]; have || read || len(ps.held) >= mostHeldOpen {
		f.Close() //nolint:errcheck // nothing was read
		return
	}
	if ps.held == nil {
		ps.held = map[fileKey]*os.File{}
	}
	ps.held[key] = f
}

// object returns the symbols of the file of a mapping, and reads them if needed; nil: they can't be
// read, or were not read yet.
func (ps *Processes) object(p *process, i int) *object {
	key, known := p.keys[i]
	if known {
		if key == noFile {
			return nil
		}
		if o, read := ps.known(key); read || ps.talk.has(key) {
			return o
		}
	}
	f := ps.held[key]
	if f != nil {
		delete(ps.held, key)
	} else {
		var err error
		if f, key, err = ps.open(p, &p.maps[i]); err != nil {
			if !errors.Is(err, proc.ErrHangs) { // otherwise it is tried again
				p.keys[i] = noFile
			}
			return nil
		}
	}
	p.keys[i] = key
	if o, read := ps.known(key); read {
		f.Close() //nolint:errcheck // nothing was read
		return o
	}
	m := p.maps[i]
	if ps.lean == nil {
		o, _ := ps.load(f, key, p, m.Path) // nil with an error
		ps.store(key, o, f, p, &m, nil)
		return o
	}
	payer, talk := payerOf(key, ps.userOf(p)), ps.talk
	if talk.has(key) {
		f.Close() //nolint:errcheck // nothing was read
		return nil
	}
	ps.ask(key, &query{payer: payer, q: &Request{Op: OpHeader, File: f},
		done: func(a *Answer, err error) {
			if errors.Is(err, ErrUnavailable) { // the next call reads it again
				ps.holdOpen(key, f)
				return
			}
			var o *object
			if err == nil {
				o = &object{buildID: a.BuildID, link: a.Link, loads: ownSegments(a.Loads),
					full: a.Full, payer: payer}
			}
			ps.store(key, o, f, p, &m, talk)
		}})
	return ps.objects[key]
}

// known returns the symbols of a file; !read: it was not read. nil: they can't be read.
func (ps *Processes) known(key fileKey) (o *object, read bool) {
	if o, read = ps.objects[key]; o != nil {
		ps.used[o] = ps.tick
	}
	return o, read
}

// store stores what was read of a file, and closes the file or keeps it.
func (ps *Processes) store(key fileKey, o *object, f *os.File, p *process, m *Mapping,
	talk *conversation) {
	if _, read := ps.objects[key]; read { // by another call, meanwhile
		f.Close() //nolint:errcheck // it was read from
		return
	}
	if !ps.hold(o, f, p, m) && (o == nil || !talk.keep(key, f)) {
		f.Close() //nolint:errcheck // it was read from
	}
	ps.objects[key] = o
	if o != nil {
		ps.bytes += o.size()
		ps.used[o] = ps.tick
	}
	ps.shrink(o)
}

// load reads all symbols of a file. The error says that it is no ELF file.
func (ps *Processes) load(f *os.File, key fileKey, p *process, path string) (*object, error) {
	h, err := readHeader(f, key.size)
	if err != nil {
		return nil, err
	}
	o := &object{buildID: h.buildID(), link: h.debugLink(), loads: h.segments(), full: h.full(),
		payer: payerOf(key, ps.userOf(p))}
	var d *header // its symbols may be in a debug file
	if !o.full {
		if debug, size := ps.openDebug(p, o, path); debug != nil {
			d, _ = readHeader(debug, size)
			defer debug.Close()
		}
	}
	_ = o.readAll(h, d) // with an error the rest counts
	return o, nil
}

// openDebug opens what may be the debug file of a file, below the root of the process or here; nil:
// there is none. The caller closes it.
func (ps *Processes) openDebug(p *process, o *object, path string) (f *os.File, size int64) {
	places, root := o.link.places(o.buildID, path), ps.in(p.pid, "root")
	if len(places) == 0 {
		return nil, 0
	}
	f, key, _ := ps.openGuarded(p.pid, func() (*os.File, fileKey, error) {
		f, size := openDebugFile(places, root, "/")
		return f, fileKey{size: size}, nil
	})
	return f, key.size
}

// shrink drops the least recently used symbols when there are too many, but never those of one
// file.
func (ps *Processes) shrink(but *object) {
	if ps.bytes <= ps.limits.symbols && len(ps.objects) <= ps.limits.files {
		return
	}
	var all []*object
	for o := range ps.used {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *object) int { return int(ps.used[a]) - int(ps.used[b]) })
	all = slices.Concat(ps.ofLargeUsers(all), all)
	drop := map[*object]bool{}
	for _, o := range all {
		if o == but || drop[o] {
			continue
		}
		if ps.bytes <= ps.limits.symbols*3/4 && len(ps.used) <= ps.limits.files*3/4 {
			break
		}
		drop[o] = true
		ps.bytes -= o.size()
		delete(ps.used, o)
		if ps.lean != nil {
			ps.lean.drop(o)
		}
	}
	for key, o := range ps.objects {
		if o == nil || drop[o] {
			delete(ps.objects, key)
		}
	}
	for o := range drop {
		if l := ps.later[o]; l != nil && ps.asks {
			l.close()
			delete(ps.later, o)
		}
	}
}

// ofLargeUsers returns those of the files whose users have more than half of what may be kept, so
// that they are dropped first.
func (ps *Processes) ofLargeUsers(all []*object) (out []*object) {
	files, bytes := map[uint32]int{}, map[uint32]int{}
	for _, o := range all {
		files[o.payer]++
		bytes[o.payer] += o.size()
	}
	for _, o := range all {
		if IsBounded(o.payer) && (files[o.payer] > ps.limits.files/2 ||
			bytes[o.payer] > ps.limits.symbols/2) {
			files[o.payer]--
			bytes[o.payer] -= o.size()
			out = append(out, o)
		}
	}
	return out
}

// open opens the file of a mapping: through the mapping itself, which also leads to deleted files;
// else by its name below the root of the process; else by its name here if it is the same file.
func (ps *Processes) open(p *process, m *Mapping) (*os.File, fileKey, error) {
	if strings.HasPrefix(m.Path, "/dev/") && !strings.HasPrefix(m.Path, "/dev/shm/") {
		return nil, fileKey{}, fs.ErrInvalid
	}
	if p.version != 0 {
		if f, key, err := ps.history.duplicate(m); err == nil {
			return f, key, nil
		}
	}
	one, isExe := *m, m.Deleted && m.Path == ps.exeOf(p)
	dir := ps.in(p.pid, "")
	return ps.openGuarded(p.pid, func() (*os.File, fileKey, error) {
		return openMapped(dir, &one, isExe)
	})
}

// openMapped opens the file of a mapping of the process with the directory dir. isExe: it is what
// the process executes.
func openMapped(dir string, m *Mapping, isExe bool) (*os.File, fileKey, error) {
	if f, key, err := openRegular(dir + fmt.Sprintf("map_files/%x-%x", m.Start,
		m.End)); err == nil {
		return f, key, nil
	}
	if m.Deleted {
		if isExe {
			return openRegular(dir + "exe")
		}
		return nil, fileKey{}, fs.ErrNotExist
	}
	if f, key, err := openBelow(dir+"root", m.Path); err == nil {
		return f, key, nil
	}
	f, key, err := openBelow("/", m.Path)
	if err == nil && !m.isFile(key) {
		f.Close()
		return nil, fileKey{}, fs.ErrNotExist
	}
	return f, key, err
}
