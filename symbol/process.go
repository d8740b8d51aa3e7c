package symbol

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"culprit/kernel"
	"culprit/kernel/proc"

	"golang.org/x/sys/unix"
)

// Processes resolves addresses of processes. The symbols of a file are cached for all processes
// that map it, under any name. Files with the same build id share nothing, since the author of a
// file chooses it. Safe for concurrent use.
type Processes struct {
	root kernel.Root

	mu      sync.Mutex
	procs   map[int]*process
	objects map[fileKey]*object // nil: cannot be read
	used    map[*object]uint64  // when each was used last
	vdso    *object
	held    map[fileKey]*os.File // open until their symbols are read
	tick    uint64
	reads   uint64 // of maps
	bytes   int
	code    int // bytes of the functions of all Code
	limits  limits
	// when unused processes were dropped last
	swept time.Time
	// processes that came since their bytes were added up
	uncounted int
	texts     map[string]string // paths of mappings, each once
	lean      *learntByUser     // by address in the file; nil: symbols are cached
	// asks makes Stack and Place learn the names that they need: files are read by another process
	asks bool
	// files for Resolve; nil: symbols are not deferred
	later map[*object]*laterFile
	// addresses whose inlined functions are not known yet; nil: Inlining was not called
	wished  map[learnKey]*inlineWish
	waiting int                             // addresses in wished
	found   map[*object]map[uint64][]string // what FindInlined has found

	frames    frameNames
	inlinings uint64 // see Inlinings
	files     *Files
	history   *History          // what processes mapped, nil: UseHistory was not called
	talk      *conversation     // of the call that has the lock; nil: it asks no other process
	away      time.Duration     // CPU time of others, see TakeAway
	failed    map[string]string // why names of a file are missing, by its path
	inside    bool              // pids are those of a PID namespace
	outside   bool              // a process outside of it was looked up
	denied    map[int]bool
	gone      map[int]bool
	hung      map[int]bool // see hangs
}

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

// A process is what is known of one process. It stays after the process has ended.
type process struct {
	pid     int
	start   uint64 // when it began; another process with its pid began later
	maps    []Mapping
	keys    map[int]fileKey // of the files of mappings, by index
	exe     string          // see exeOf
	inside  int             // pid in its own namespace; see insideOf
	user    uint32          // see userOf
	known   bool            // user is known
	cut     bool            // it has more mappings than are kept
	read    time.Time
	reading uint64 // number of the reading of its maps, over all processes
	checked time.Time
	used    uint64

	jit    jitMap
	frames frameCheck

	version uint64 // of what the history has of it; 0: nothing
	// executed is how many layouts the history has of it.
	executed int
	watched  bool       // Follow or the history reports its mappings
	former   []*process // former mappings of a watched one, oldest first
}

const (
	// maxMapsAge is how old the maps of a process must be before an unknown address has them read
	// again.
	maxMapsAge = time.Second
)

// NewProcesses returns a Processes that has read nothing yet. The caller closes it.
func NewProcesses(root kernel.Root) *Processes { return NewProcessesOf(root, nil) }

// NewProcessesOf is NewProcesses with what reads the files of processes; nil: this process does.
func NewProcessesOf(root kernel.Root, files *Files) *Processes {
	ps := &Processes{root: root, limits: usualLimits, procs: map[int]*process{},
		objects: map[fileKey]*object{}, used: map[*object]uint64{}, files: files,
		denied: map[int]bool{}, gone: map[int]bool{}, failed: map[string]string{}}
	if files == nil {
		ps.files = ownFiles()
	}
	if ps.files.apart {
		ps.lean, ps.asks = newLearntByUser(usualAddresses), true
		ps.later = map[*object]*laterFile{}
	}
	return ps
}

// read answers a request for a file. The Answer is never nil. It releases the lock meanwhile, so
// that the caller must not rely on what the lock guards.
func (ps *Processes) read(payer uint32, q *Request) (a *Answer, err error) {
	if !ps.files.apart {
		return ps.files.read(payer, q)
	}
	ps.unlocked(func() { a, err = ps.files.read(payer, q) })
	ps.away += a.CPU
	return a, err
}

// TakeAway returns the CPU time that another process and other threads have used for this one since
// the last call.
func (ps *Processes) TakeAway() time.Duration {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	took := ps.away
	ps.away = 0
	return took
}

// userOf returns the user of a process. It is read on demand.
func (ps *Processes) userOf(p *process) uint32 {
	if p == nil {
		return nobody
	}
	if !p.known {
		var st unix.Stat_t
		if err := unix.Stat(ps.in(p.pid, ""), &st); err != nil {
			return nobody // it has ended
		}
		p.user, p.known = st.Uid, true
	}
	return p.user
}

// nobody is the user of a process that has ended.
const nobody = 65534

// outsideMost is above every pid.
const outsideMost = 1 << 31

// Inside declares that pids are those of a PID namespace. Then 0 and pids above the maximum are
// processes outside of it, which can't be read. It is called before any other method.
func (ps *Processes) Inside() { ps.inside = true }

// ReadMappedFiles reads the maps of a process and the symbols of its files, so that its addresses
// resolve after it has ended. The error is of its maps.
func (ps *Processes) ReadMappedFiles(pid int) error {
	var failed error
	ps.run(func() {
		p, err := ps.process(pid)
		if failed = err; err != nil {
			return
		}
		for i := range p.maps {
			if p.maps[i].Exec {
				ps.object(p, i)
			}
		}
	})
	return failed
}

// OpenMappedFiles reads the maps of a process and opens the files that it executes, so that its
// addresses resolve after it has ended. Their symbols are read when they are needed. A later call
// adds libraries that were loaded since. Close closes the files. The error is of the maps.
func (ps *Processes) OpenMappedFiles(pid int) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.procs[pid]
	if p == nil {
		var err error
		if p, err = ps.process(pid); err != nil {
			return err
		}
	} else if !ps.again(p) {
		return nil // it has ended
	}
	ps.holdFiles(p)
	return nil
}

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

// Close closes the open files. The error is always nil.
func (ps *Processes) Close() error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, l := range ps.later {
		l.close()
	}
	clear(ps.later)
	for _, f := range ps.held {
		f.Close() //nolint:errcheck // it was read from
	}
	ps.held = nil
	return nil
}

// Forget drops a process. The symbols of its files stay for others.
func (ps *Processes) Forget(pid int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.procs, pid)
}

// Place resolves an address of a process. Without a symbol the place has the address alone.
func (ps *Processes) Place(pid int, addr uint64) (place Place) {
	ps.turn(ps.asks)
	ps.run(func() {
		if ps.asks {
			ps.learn([]Asked{{PID: pid, PCs: []uint64{addr}}})
		}
		place = ps.at(pid, addr, addr)
	})
	return place
}

// Stack resolves a stack, innermost first; see Kernel.Stack for the frames after the first.
func (ps *Processes) Stack(pid int, pcs []uint64) []Place {
	ps.turn(ps.asks)
	out := make([]Place, len(pcs))
	ps.run(func() {
		if ps.asks {
			ps.learn([]Asked{{PID: pid, PCs: pcs}})
		}
		for i, pc := range pcs {
			out[i] = ps.at(pid, pc, pc-uint64(min(i, 1)))
		}
	})
	return out
}

// Notes returns caveats of the places returned so far: processes that could not be read.
func (ps *Processes) Notes() []string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var out []string
	if n := len(ps.denied); n > 0 {
		out = append(out, fmt.Sprintf("addresses of %s have no names: %v", several(n),
			kernel.Refused("read the maps of processes of others", "", unix.CAP_SYS_PTRACE)))
	}
	if n := len(ps.gone); n > 0 {
		out = append(out, fmt.Sprintf("addresses of %s have no names: ended before the maps "+
			"could be read", several(n)))
	}
	if n := len(ps.hung); n > 0 {
		out = append(out, fmt.Sprintf("addresses of %s have no names: reading its maps, memory or "+
			"files does not return. It hangs in execve(2), its memory map is locked, or a file "+
			"system does not answer", several(n)))
	}
	if ps.outside {
		out = append(out, "addresses of processes outside of this PID namespace have no names")
	}
	cut := 0
	for _, p := range ps.procs {
		cut += b2i(p.cut)
	}
	if cut > 0 {
		out = append(out, fmt.Sprintf("some addresses of %s have no names: only the first %d "+
			"mappings of a process are kept", several(cut), mostMappings))
	}
	var failed []string
	for path, why := range ps.failed {
		failed = append(failed, fmt.Sprintf("addresses of %s have no names: %s", path, why))
	}
	slices.Sort(failed)
	return slices.Concat(out, failed, ps.files.notes())
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// firstLines returns the first n lines of a text, and whether it has more.
func firstLines(b []byte, n int) (first []byte, cut bool) {
	at := 0
	for range n {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return b, false
		}
		at += i + 1
	}
	return b[:at], at < len(b)
}

func several(n int) string {
	if n == 1 {
		return "one process"
	}
	if n >= mostUnseen { // no more are counted
		return strconv.Itoa(n) + " processes or more"
	}
	return strconv.Itoa(n) + " processes"
}

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

// process returns a process. It reads the maps at the first call, and when another process has its
// pid.
func (ps *Processes) process(pid int) (*process, error) {
	if ps.inside && (pid <= 0 || pid >= outsideMost) {
		ps.outside = true
		return nil, fs.ErrNotExist
	}
	ps.tick++
	p := ps.procs[pid]
	if v := ps.history.versionOf(pid); v != 0 && (p == nil || p.version != v) {
		if fresh := ps.recall(pid, 0); fresh != nil {
			p = fresh
			ps.put(p)
		} else if p != nil {
			p.version = v
		}
	}
	if p != nil {
		if time.Since(p.checked) > maxMapsAge {
			p.checked = time.Now()
			if start, _, err := ps.stat(pid); err == nil && start != p.start {
				p = nil
			}
		}
	}
	if p == nil {
		var err error
		if p, err = ps.readProcess(pid); err != nil {
			return nil, err
		}
		delete(ps.procs, pid) // the former process with this pid
		ps.makeSpace(p.cost())
		ps.procs[pid] = p
	}
	p.used = ps.tick
	return p, nil
}

func (ps *Processes) in(pid int, name string) string {
	return ps.root.InProc(strconv.Itoa(pid) + "/" + name)
}

// stat returns when a process began, in clock ticks.
func (ps *Processes) stat(pid int) (start uint64, ended bool, err error) {
	b, err := ps.readFile(pid, "stat")
	if err != nil {
		return 0, errors.Is(err, fs.ErrNotExist), err
	}
	return parseStart(b), false, nil
}

// parseStart parses the 22nd field of /proc/PID/stat. The second one may contain blanks and
// parentheses.
func parseStart(b []byte) uint64 {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return 0
	}
	words := bytes.Fields(b[i+1:])
	if len(words) < 20 {
		return 0
	}
	start, _ := proc.ParseUint(words[19])
	return start
}

func (ps *Processes) readProcess(pid int) (*process, error) {
	p := &process{pid: pid, checked: time.Now()}
	var err error
	if p.start, _, err = ps.stat(pid); err == nil {
		ps.userOf(p)
		err = ps.readMaps(p)
	}
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, proc.ErrHangs): // it may be read later
	case errors.Is(err, fs.ErrPermission):
		count(ps.denied, pid)
	default:
		count(ps.gone, pid)
	}
	return nil, err
}

func count(set map[int]bool, pid int) {
	if len(set) < mostUnseen {
		set[pid] = true
	}
}

func (ps *Processes) readMaps(p *process) error {
	b, err := ps.readFile(p.pid, "maps")
	if err != nil {
		return err
	}
	b, cut := firstLines(b, mostMappings)
	maps, _ := parseMaps(b, ps.shared)
	if len(maps) == 0 && len(p.maps) > 0 {
		return fs.ErrNotExist // the process is ending
	}
	if p.watched && !containsAll(maps, p.maps) {
		p.retire()
	}
	ps.reads++
	p.maps, p.keys, p.read, p.reading = maps, map[int]fileKey{}, time.Now(), ps.reads
	p.exe, p.inside, p.cut, p.frames = "", 0, cut, frameCheck{}
	return nil
}

// exeOf returns the base name of the file that a process executes. It is read on demand.
func (ps *Processes) exeOf(p *process) string {
	if p.exe == "" {
		p.exe, _ = os.Readlink(ps.in(p.pid, "exe"))
		p.exe = strings.TrimSuffix(p.exe, " (deleted)")
	}
	return p.exe
}

// insideOf returns the pid of a process in its own namespace. It is read on demand.
func (ps *Processes) insideOf(p *process) int {
	if p.inside == 0 {
		p.inside = p.pid
		if b, err := proc.ReadFile(ps.in(p.pid, "status"), nil); err == nil {
			p.inside = parseInside(b, p.pid)
		}
	}
	return p.inside
}

// parseInside parses the innermost number of NSpid in /proc/PID/status.
func parseInside(b []byte, pid int) int {
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte("NSpid:"))
		if !ok {
			continue
		}
		words := bytes.Fields(rest)
		if len(words) > 0 {
			if n, err := proc.ParseUint(words[len(words)-1]); err == nil && n > 0 && n < 1<<31 {
				return int(n)
			}
		}
	}
	return pid
}

// again reads the maps once more. It returns false when the process has ended, or a read does not
// return; its mappings stay.
func (ps *Processes) again(p *process) bool { return ps.readAgain(p) == nil }

// readAgain reads the maps once more. With an error the mappings stay. The error is fs.ErrNotExist
// when the process has ended.
func (ps *Processes) readAgain(p *process) error {
	p.read = time.Now()
	start, _, err := ps.stat(p.pid)
	if err == nil && start != p.start {
		err = fs.ErrNotExist
	}
	if err != nil {
		return err
	}
	return ps.readMaps(p)
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
