package symbol

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/kernel/feature"
)

// A Kernel resolves addresses of the kernel. It asks the kernel for single symbols, and reads
// /proc/kallsyms when that does not answer. Safe for concurrent use.
type Kernel struct {
	root kernel.Root

	mu    sync.Mutex
	table *Table
	err   error
	read  time.Time
	// how old the symbols must be before they are read again; at least readAgain
	again time.Duration

	tried      bool // whether single symbols can be asked for
	names      *bpf.Namer
	start, end uint64 // of the functions of the kernel itself
	// and of those that it began with, from where the idle task of the first CPU was called; 0: not
	// known
	init, past uint64
	known      map[uint64]Place
}

// NewKernel returns a Kernel that has read nothing yet.
func NewKernel(root kernel.Root) *Kernel { return &Kernel{root: root} }

// readAgain is how old the symbols must be before an address without one makes them be read again:
// modules and programs may have been loaded since. Each time that it was in vain they must be twice
// as old, up to readLast: some code never has a name.
const (
	readAgain = 10 * time.Second
	readLast  = 10 * time.Minute
)

func (k *Kernel) load() *Table {
	k.table, k.err = k.open()
	k.read = time.Now()
	return k.table
}

func (k *Kernel) open() (*Table, error) {
	f, err := os.Open(k.root.InProc("kallsyms"))
	if err != nil {
		return &Table{}, errors.Join(feature.KernelAddresses.Have(k.root), err)
	}
	defer f.Close()
	t, err := ReadKallsyms(f)
	if err == nil && len(t.syms) == 0 {
		err = feature.KernelAddresses.Have(k.root)
	}
	return t, err
}

// Place resolves an address of the kernel. Without a symbol the place has the address alone.
func (k *Kernel) Place(addr uint64) Place {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.at(addr, addr)
}

// Stack resolves a stack, innermost first. All frames but the first are return addresses, so the
// symbol is looked up one byte before: a call that never returns may be the last instruction of its
// function.
func (k *Kernel) Stack(pcs []uint64) []Place {
	out := make([]Place, len(pcs))
	k.mu.Lock()
	defer k.mu.Unlock()
	near := make([]uint64, len(pcs))
	for i, pc := range pcs {
		near[i] = pc - uint64(min(i, 1))
	}
	k.ask(near)
	for i, pc := range pcs {
		if p, ok := k.known[near[i]]; ok && k.table == nil {
			if p.Name == "" { // the table would not tell it either
				out[i] = Place{Address: pc}
				continue
			}
			p.Address, p.Offset = pc, p.Offset+pc-near[i]
			out[i] = p
			continue
		}
		out[i] = k.at(pc, near[i])
	}
	return out
}

// mostKnown is how many places are cached. When there are more, the cache is emptied.
const mostKnown = 1 << 16

// ask asks the kernel for the symbols of addresses while the table has not been read. Base stays
// unknown, since it requires the table.
func (k *Kernel) ask(addrs []uint64) {
	n := k.namer()
	if n == nil || k.table != nil {
		return
	}
	if len(k.known) > mostKnown {
		clear(k.known)
	}
	var unknown []uint64
	for _, a := range addrs {
		if p, ok := k.known[a]; !ok || p.Name == "" { // a module may have come, or a program
			unknown = append(unknown, a)
		}
	}
	named, err := n.Names(unknown)
	if err != nil {
		return // the table answers
	}
	for i, t := range named {
		module := t.Module
		switch {
		case t.Nothing:
			k.known[unknown[i]] = Place{}
			continue
		case t.Name == "" || padding([]byte(t.Name)):
			continue
		case unknown[i] >= k.start && unknown[i] < k.end, unknown[i] >= k.init &&
			unknown[i] < k.past:
			module = vmlinux
		case module == "" && strings.HasPrefix(t.Name, "bpf_"):
			module = "bpf" // as the table has it
		case module == "":
			continue
		}
		k.known[unknown[i]] = Place{Module: module, Name: clean(t.Name), Offset: t.Offset}
	}
}

// namer returns what asks for single symbols; nil for captured files and where it is not supported.
func (k *Kernel) namer() *bpf.Namer {
	if k.tried || k.root != (kernel.Root{}) {
		return k.names
	}
	k.tried = true
	n, err := bpf.NewNamer()
	if err != nil {
		return nil
	}
	if k.start, err = n.Address("_stext"); err == nil {
		k.end, err = n.Address("_etext")
	}
	if err != nil || k.start == 0 || k.end <= k.start {
		n.Close()
		return nil
	}
	if init, err := n.Address("_sinittext"); err == nil {
		if past, err := n.Address("_einittext"); err == nil && init > 0 && past > init {
			k.init, k.past = init, past
		}
	}
	k.names, k.known = n, map[uint64]Place{}
	return n
}

// Function returns the address of a kernel function and the distance to the next symbol; !ok: there
// is none of that name.
func (k *Kernel) Function(name string) (addr, size uint64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := k.namer(); n != nil && k.table == nil {
		if addr, err := n.Address(name); err == nil {
			if addr == 0 {
				return 0, 0, false
			}
			if named, err := n.Names([]uint64{addr}); err == nil && named[0].Size > 0 &&
				named[0].Offset == 0 {
				return addr, named[0].Size, true
			}
		}
	}
	if k.table == nil {
		k.load()
	}
	addr, _, ok = k.table.lookup(vmlinux, name)
	if !ok {
		return 0, 0, false
	}
	i := sort.Search(len(k.table.syms), func(i int) bool { return k.table.syms[i].addr > addr })
	if i == len(k.table.syms) {
		return 0, 0, false
	}
	return addr, k.table.syms[i].addr - addr, true
}

func (k *Kernel) at(addr, near uint64) Place {
	t := k.table
	if t == nil {
		t = k.load()
	}
	p, ok := t.find(near)
	if !ok && len(t.syms) > 0 && time.Since(k.read) > max(k.again, readAgain) {
		if p, ok = k.load().find(near); ok {
			k.again = readAgain
		} else {
			k.again = min(2*max(k.again, readAgain), readLast)
		}
	}
	p.Offset += addr - near
	p.Address = addr
	return p
}

// Lookup returns the address of a kernel function or variable and its module. module "" is any, the
// kernel itself first.
func (k *Kernel) Lookup(module, name string) (addr uint64, in string, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.table == nil {
		k.load()
	}
	return k.table.lookup(module, name)
}

// Err returns why no symbols are known: measure.ErrDenied where the kernel hides its addresses,
// measure.ErrUnsupported where it has no table. It is nil before the first lookup, and when symbols
// were read.
func (k *Kernel) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Notes returns the caveats of the places returned so far: one sentence or none.
func (k *Kernel) Notes() []string {
	if err := k.Err(); err != nil {
		return []string{"addresses of the kernel have no names: " + err.Error()}
	}
	return nil
}

// A Table is the kernel's symbols, sorted by address.
type Table struct {
	syms   []sym
	text   [][]byte // the names, each with a 0 behind it, in blocks
	module []string
	starts []uint64 // where each module begins
	number map[string]uint16
	last   string // the module of the line before, and its number
	lastN  uint16
}

// A sym is one symbol: 16 bytes.
type sym struct {
	addr   uint64
	name   uint32 // where its name begins: block and place in it
	module uint16
	rank   uint8 // which of several names for an address to prefer
}

// block is how many bytes of names are stored together: a power of two, so that a name's position
// is a number of 32 bits.
const block = 1 << 16

// Len returns the number of symbols.
func (t *Table) Len() int { return len(t.syms) }

// Size estimates the bytes that the table takes.
func (t *Table) Size() int { return 16*cap(t.syms) + block*len(t.text) }

// maxSymbols bounds the symbols of a table: their indexes must fit the sort keys.
const maxSymbols = 1 << 24

// errTooMany is the error of more symbols than any kernel has.
var errTooMany = errors.New("more symbols than there can be")

// ReadKallsyms parses /proc/kallsyms:
//
//	ffffffff81000000 T _text
//	ffffffffc0201000 t ext4_read	[ext4]
//
// It leaves out symbols without an address (hidden ones), per-CPU offsets (type A), the compiler's
// named padding before functions, and malformed lines. The error is that of r, or of more symbols
// than any kernel has.
func ReadKallsyms(r io.Reader) (*Table, error) {
	t := &Table{syms: make([]sym, 0, 80_000), module: []string{vmlinux},
		number: map[string]uint16{"": 0, vmlinux: 0}}
	buf := make([]byte, 64<<10)
	have := 0
	for {
		n, err := r.Read(buf[have:])
		have += n
		rest := buf[:have]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			t.line(rest[:i])
			rest = rest[i+1:]
		}
		if err != nil {
			t.line(rest)
			if err != io.EOF {
				return t, err
			}
			break
		}
		if len(rest) == len(buf) {
			rest = rest[:0] // no line is as long
		}
		have = copy(buf, rest)
		if len(t.syms) > maxSymbols {
			return t, errTooMany
		}
	}
	t.sort()
	t.starts = make([]uint64, len(t.module))
	for i := len(t.syms) - 1; i >= 0; i-- {
		t.starts[t.syms[i].module] = t.syms[i].addr
	}
	return t, nil
}

func (t *Table) line(b []byte) {
	var addr uint64
	i := 0
	for ; i < len(b) && i < 16; i++ {
		c := b[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			c = 16
		}
		if c == 16 {
			break
		}
		addr = addr<<4 | uint64(c)
	}
	if addr == 0 || len(b) < i+4 || b[i] != ' ' || b[i+2] != ' ' {
		return
	}
	kind, name := b[i+1], b[i+3:]
	module := uint16(0)
	if tab := bytes.IndexByte(name, '\t'); tab >= 0 {
		word := name[tab+1:]
		name = name[:tab]
		if len(word) > 2 && word[0] == '[' && word[len(word)-1] == ']' {
			module = t.numberOf(word[1 : len(word)-1])
		}
	}
	if len(name) == 0 || len(name) >= block/2 || bytes.IndexByte(name, 0) >= 0 ||
		kind|0x20 == 'a' || kind|0x20 == 'u' || padding(name) {
		return
	}
	if n := len(t.text); n == 0 || len(t.text[n-1])+len(name)+1 > block {
		if n == 1<<16 {
			return // 4 GB of names
		}
		t.text = append(t.text, make([]byte, 0, block))
	}
	n := len(t.text) - 1
	t.syms = append(t.syms, sym{addr: addr, name: uint32(n*block + len(t.text[n])), module: module,
		rank: rank(kind, name)})
	t.text[n] = append(append(t.text[n], name...), 0)
}

func padding(name []byte) bool {
	return len(name) > 6 && name[0] == '_' && name[1] == '_' &&
		(string(name[2:6]) == "pfx_" || string(name[2:6]) == "cfi_")
}

// rank orders the names of one address: functions before variables, global before local, few
// underscores before many.
func rank(kind byte, name []byte) uint8 {
	r := uint8(0)
	switch kind {
	case 'T':
		r = 48
	case 'W':
		r = 40
	case 't', 'w':
		r = 32
	default:
		if kind < 'a' {
			r = 16
		}
	}
	under := 0
	for under < len(name) && under < 7 && (name[under] == '_' || name[under] == '.' ||
		name[under] == '$') {
		under++
	}
	return r + 7 - uint8(under)
}

func (t *Table) numberOf(module []byte) uint16 {
	if string(module) == t.last {
		return t.lastN
	}
	n := t.numberOfOther(module)
	t.last, t.lastN = t.module[n], n
	return n
}

func (t *Table) numberOfOther(module []byte) uint16 {
	if n, ok := t.number[string(module)]; ok {
		return n
	}
	if len(t.module) == 1<<16-1 {
		return 0
	}
	n := uint16(len(t.module))
	t.module = append(t.module, string(module))
	t.number[string(module)] = n
	return n
}

// sort sorts the symbols by address; of one address the best name is last. The kernel's own symbols
// are sorted already, those of modules are not.
func (t *Table) sort() {
	s := t.syms
	from := 1
	for from < len(s) && s[from].addr >= s[from-1].addr {
		from++
	}
	if from < len(s) {
		sortSyms(s[from:])
		if s[from].addr < s[from-1].addr {
			sortSyms(s)
		}
	}
	for i := 1; i < len(s); i++ {
		for j := i; j > 0 && s[j].addr == s[j-1].addr && s[j].rank < s[j-1].rank; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
}

func sortSyms(s []sym) {
	least, most := s[0].addr, s[0].addr
	for i := range s {
		least, most = min(least, s[i].addr), max(most, s[i].addr)
	}
	if most-least >= 1<<40 {
		slices.SortStableFunc(s, func(a, b sym) int { return cmp.Compare(a.addr, b.addr) })
		return
	}
	keys := make([]uint64, len(s)) // address and place in one number: sorts several times as fast
	for i := range s {
		keys[i] = (s[i].addr-least)<<24 | uint64(i)
	}
	slices.Sort(keys)
	old := slices.Clone(s)
	for i, k := range keys {
		s[i] = old[k&(1<<24-1)]
	}
}

func (t *Table) name(s *sym) string {
	text := t.text[s.name/block][s.name%block:]
	return string(text[:bytes.IndexByte(text, 0)])
}

// lastReach is how far after the last symbol of a module an address still belongs to it, since no
// symbol marks its end.
const lastReach = 64 << 10

// find returns the symbol at an address or the nearest before it; !ok: there is none.
func (t *Table) find(addr uint64) (Place, bool) {
	i := sort.Search(len(t.syms), func(i int) bool { return t.syms[i].addr > addr }) - 1
	if i < 0 {
		return Place{}, false
	}
	s := &t.syms[i]
	offset := addr - s.addr
	if last := i+1 == len(t.syms) || t.syms[i+1].module != s.module; last && offset >= lastReach {
		return Place{}, false
	}
	name := t.name(s)
	if name == "_end" {
		return Place{}, false // behind the kernel
	}
	return Place{Module: t.module[s.module], Name: clean(name), Offset: offset,
		Base: t.starts[s.module]}, true
}

func (t *Table) lookup(module, name string) (addr uint64, in string, ok bool) {
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return 0, "", false
	}
	places := map[uint32]bool{}
	pattern := []byte(name + "\x00")
	for n, text := range t.text {
		for at := 0; ; at++ {
			i := bytes.Index(text[at:], pattern)
			if i < 0 {
				break
			}
			at += i
			if at == 0 || text[at-1] == 0 {
				places[uint32(n*block+at)] = true
			}
		}
	}
	if len(places) == 0 {
		return 0, "", false
	}
	var best *sym
	for i := range t.syms {
		s := &t.syms[i]
		if places[s.name] && (module == "" || t.module[s.module] == module) &&
			(best == nil || s.module < best.module) {
			best = s
		}
	}
	if best == nil {
		return 0, "", false
	}
	return best.addr, t.module[best.module], true
}
