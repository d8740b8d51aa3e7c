package collect

import (
	"bytes"
	"errors"
	"os"
	"strings"

	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Caches reads the sizes of the kernel's caches that are one for the whole machine: names (dentry), inodes, open files, and
// slabs. Those of network namespaces are another collector's; both declare the same statistics.
//
// /proc/slabinfo is for root and dear (the kernel walks lists of slabs with a lock held), so it is read only when
// cache.bytes is wanted, of which it is the only source here.
type Caches struct{}

// Stats lists what caches have in common.
func (Caches) Stats() []measure.Stat { return cacheStats() }

// Open opens the files below /proc/sys/fs, and /proc/slabinfo when it is needed.
func (Caches) Open(env *Env, want Want) (Reading, error) {
	r := &cacheReading{last: map[string]uint64{}}
	var err error
	for i, name := range []string{"dentry-state", "inode-state", "file-nr"} {
		if r.files[i], err = env.Root.OpenProc("sys/fs/" + name); err != nil {
			r.notes = append(r.notes, err.Error())
		}
	}
	if want.Stat("cache.bytes") {
		r.slabs, err = env.Root.OpenProc("slabinfo")
		switch {
		case errors.Is(err, measure.ErrDenied):
			r.noSlabs = "slabs are shown to root only (/proc/slabinfo)"
		case err != nil:
			r.noSlabs = err.Error()
		}
	}
	if want.Stat("cache.buckets") {
		if env.Root == (kernel.Root{}) {
			r.buckets = bootBuckets()
		}
		if len(r.buckets) == 0 {
			r.noBuckets = "the sizes of the dentry and inode hash tables stand only in the boot messages, which are not readable or already overwritten"
		}
	}
	return r, nil
}

type cacheReading struct {
	files     [3]*kernel.File
	notes     []string // what could not be opened
	slabs     *kernel.File
	noSlabs   string
	buckets   map[string]float64 // of dentry and inode; what is not in it is not known
	noBuckets string
	last      map[string]uint64 // entries, by name of cache
	name      []byte
}

// parseNumbers reads up to len(dst) numbers, as in /proc/sys/fs/dentry-state, and gives how many there were.
func parseNumbers(dst []uint64, b []byte) int {
	c := kernel.Scan(b)
	for i := range dst {
		if !c.More() {
			return i
		}
		v := c.Int()
		if c.Err() != nil {
			return i
		}
		dst[i] = uint64(max(v, 0)) // sums over CPUs that change meanwhile may come out a little below zero
	}
	return len(dst)
}

func (r *cacheReading) Read(out *Out) error {
	for _, n := range r.notes {
		out.NoteAll(n)
	}
	var v [6]uint64
	// "nr_dentry nr_unused age_limit want_pages nr_negative dummy"; nr_negative since 5.0 (proc_sys_fs(5)).
	if n := r.numbers(v[:], 0); n >= 2 {
		r.put(out, "dentry", v[0])
		r.put(out, "dentry-unused", v[1])
		if n >= 5 {
			r.put(out, "dentry-negative", v[4])
		}
	}
	if n := r.numbers(v[:], 1); n >= 2 { // "nr_inodes nr_free_inodes preshrink ..."
		r.put(out, "inode", v[0])
		r.put(out, "inode-unused", v[1])
	}
	if n := r.numbers(v[:3], 2); n == 3 { // "allocated free max"; free is 0 since 2.6
		r.put(out, "file", v[0]-min(v[1], v[0]))
		out.Table("cache.limit").Row(float64(v[2]), "", "file")
	}
	buckets := out.Table("cache.buckets")
	for name, n := range r.buckets {
		buckets.Row(n, "", name)
	}
	if r.noBuckets != "" {
		buckets.Note(r.noBuckets)
	}
	if r.noSlabs != "" {
		out.Table("cache.bytes").Note(r.noSlabs)
	}
	if r.slabs != nil {
		return r.putSlabs(out)
	}
	return nil
}

func (r *cacheReading) numbers(dst []uint64, file int) int {
	if r.files[file] == nil {
		return 0
	}
	b, err := r.files[file].ReadOne()
	if err != nil {
		return 0
	}
	return parseNumbers(dst, b)
}

func (r *cacheReading) put(out *Out, name string, entries uint64) {
	cache, none := out.Label(name), out.Label("")
	out.Table("cache.entries").Put(float64(entries), none, cache)
	last, had := r.last[name]
	if had || out.First { // since boot: it began at zero
		out.Table("cache.growth").Put(float64(entries)-float64(last), none, cache)
	}
	r.last[name] = entries
}

// parseSlabLine reads a line of /proc/slabinfo (slabinfo(5)): the objects in use, and the pages of all slabs, used or not.
//
//	# name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables ... : slabdata <active_slabs> <num_slabs> ...
func parseSlabLine(line []byte) (name []byte, objects, pages uint64, ok bool) {
	c := kernel.Scan(line)
	name = c.Word()
	if len(name) == 0 || name[0] == '#' || string(name) == "slabinfo" {
		return nil, 0, 0, false
	}
	objects = c.Uint()
	c.Skip(3)
	perSlab := c.Uint()
	for w := c.Word(); w != nil; w = c.Word() {
		if string(w) == "slabdata" {
			c.Skip(1)
			slabs := c.Uint()
			return name, objects, slabs * perSlab, c.Err() == nil && slabs < 1<<40 && perSlab < 1<<16
		}
	}
	return nil, 0, 0, false
}

func (r *cacheReading) putSlabs(out *Out) error {
	b, err := r.slabs.Read()
	if err != nil {
		return err
	}
	size, page, none := out.Table("cache.bytes"), float64(os.Getpagesize()), out.Label("")
	entries, growth := out.Table("cache.entries"), out.Table("cache.growth")
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		name, objects, pages, ok := parseSlabLine(line)
		if !ok {
			continue
		}
		r.name = append(append(r.name[:0], "slab:"...), name...)
		cache := out.LabelBytes(r.name)
		size.Put(float64(pages)*page, none, cache)
		entries.Put(float64(objects), none, cache)
		last, had := r.last[string(r.name)]
		if had || out.First {
			growth.Put(float64(objects)-float64(last), none, cache)
		}
		if !had || last != objects {
			r.last[string(r.name)] = objects
		}
	}
	return nil
}

func (r *cacheReading) Close() {
	for _, f := range r.files {
		f.Close()
	}
	r.slabs.Close()
}

// bootBuckets finds the sizes of the dentry and inode hash tables in the boot messages, the only place where the kernel tells them
// ("Dentry cache hash table entries: 4194304 (order: 13, 33554432 bytes, linear)"). They stand among the first hundred.
func bootBuckets() map[string]float64 {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	found := map[string]float64{}
	buf := make([]byte, 8<<10) // the longest record is 8 kB (CONSOLE_EXT_LOG_MAX)
	for range 1000 {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EPIPE) { // overwritten meanwhile: the next read goes on behind the gap
			continue
		}
		if err != nil || n == 0 || len(found) == 2 {
			break
		}
		if cache, entries, ok := parseHashMessage(buf[:n]); ok {
			found[cache] = entries
		}
	}
	return found
}

func parseHashMessage(b []byte) (cache string, entries float64, ok bool) {
	for prefix, name := range map[string]string{"Dentry cache hash table entries: ": "dentry", "Inode-cache hash table entries: ": "inode"} {
		if _, after, found := bytes.Cut(b, []byte(prefix)); found {
			digits, _, _ := strings.Cut(string(after), " ")
			v, err := kernel.ParseUint([]byte(digits))
			return name, float64(v), err == nil && v > 0
		}
	}
	return "", 0, false
}
