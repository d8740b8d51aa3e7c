package symbol

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"sync"

	"github.com/therootcompany/xz"
)

// Distributions like Fedora strip their programs and leave the names of functions in them, packed
// by xz: .gnu_debugdata is an ELF file with the symbols that .dynsym lacks.
//
// Source: MiniDebuginfo in the documentation of gdb

// The limits of such a file, in bytes.
const (
	maxMiniPacked = 8 << 20
	maxMini       = 24 << 20
	miniWindow    = 24 << 20
)

// mostMini is how many bytes of unpacked files a miniCache has.
const mostMini = 24 << 20

// A miniCache is what .gnu_debugdata of files unpacked to. The zero value is ready. Safe for
// concurrent use.
type miniCache struct {
	mu    sync.Mutex
	files map[fileKey][]byte // nil: there is none, or it is damaged
	order []fileKey          // the least recently unpacked first
	bytes int
}

// get returns what a file's section unpacked to; !known: it is not cached. The bytes never change.
func (c *miniCache) get(key fileKey) (b []byte, known bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, known = c.files[key]
	return b, known
}

// put caches what a file's section unpacked to, and drops older ones.
func (c *miniCache) put(key fileKey, b []byte) {
	if c == nil || key == noFile || len(b) > mostMini {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.files[key]; known {
		return
	}
	if c.files == nil {
		c.files = map[fileKey][]byte{}
	}
	for len(c.order) > 0 && (c.bytes+len(b) > mostMini || len(c.order) >= mostChecked) {
		c.bytes -= len(c.files[c.order[0]])
		delete(c.files, c.order[0])
		c.order = c.order[1:]
	}
	c.files[key], c.order, c.bytes = b, append(c.order, key), c.bytes+len(b)
}

// mini returns the file in .gnu_debugdata; nil: there is none, or it is damaged. The error is
// ErrLimit.
func (h *header) mini() (*header, error) {
	b, known := h.minis.get(h.file)
	if !known {
		var err error
		if b, err = h.unpackMini(); err != nil {
			return nil, err
		}
		h.minis.put(h.file, b)
	}
	if b == nil {
		return nil, nil
	}
	m, err := readHeader(bytes.NewReader(b), int64(len(b)))
	if err != nil || !m.full() || m.machine != h.machine {
		return nil, nil
	}
	return m, nil
}

// unpackMini unpacks the file in .gnu_debugdata; nil: there is none, or it is damaged. The error is
// ErrLimit.
func (h *header) unpackMini() ([]byte, error) {
	for i := range h.secs {
		s := &h.secs[i]
		if s.kind != uint32(elf.SHT_PROGBITS) || h.nameOf(s) != ".gnu_debugdata" {
			continue
		}
		if s.size == 0 || s.size > maxMiniPacked || s.off > h.size || s.size > h.size-s.off {
			return nil, nil
		}
		packed := io.NewSectionReader(h.r, int64(s.off), int64(s.size))
		unpacked, err := xz.NewReader(packed, miniWindow)
		var b []byte
		if err == nil {
			b, err = io.ReadAll(io.LimitReader(unpacked, maxMini+1))
		}
		if errors.Is(err, ErrLimit) {
			return nil, err
		}
		if err != nil || len(b) > maxMini {
			return nil, nil
		}
		return bytes.Clone(b), nil // without the unused rest of what it grew to
	}
	return nil, nil
}

// scanMini looks up addresses in .gnu_debugdata. It returns those that are not in a symbol with a
// size there.
func (h *header) scanMini(addrs []uint64, into map[uint64]learned) ([]uint64, error) {
	if len(addrs) == 0 {
		return nil, nil
	}
	m, err := h.mini()
	if m == nil {
		return addrs, err
	}
	if err := m.scan(uint32(elf.SHT_SYMTAB), addrs, into); err != nil {
		return nil, err
	}
	var rest []uint64
	for _, a := range addrs {
		if l := into[a]; l.name == "" || l.open {
			rest = append(rest, a)
		}
	}
	return rest, nil
}

// readMini adds the symbols of .gnu_debugdata.
func (o *object) readMini(h *header) error {
	m, err := h.mini()
	if m == nil {
		return err
	}
	with := object{}
	if err := with.readSymbols(m); err != nil {
		return err
	}
	base := len(o.text)
	if uint64(base)+uint64(len(with.text)) > 1<<32-1 {
		return ErrTooLong
	}
	o.text = append(o.text, with.text...)
	for _, e := range with.syms {
		e.name += uint32(base)
		o.syms = append(o.syms, e)
	}
	return nil
}
