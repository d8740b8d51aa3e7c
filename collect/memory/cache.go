package memory

import (
	"bytes"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Caches reads the sizes of the kernel caches that exist once for the machine: names (dentry),
// inodes, open files and slabs. Another collector reads those of network namespaces. Both declare
// the same statistics.
//
// /proc/slabinfo needs root and is expensive: the kernel walks lists of slabs with a lock held and
// interrupts off. It is read only if cache.bytes is wanted, which has no other source here, and for
// at most 1/slabShare of the time. Between two readings the levels are repeated, growth is NaN, and
// a note explains it.
type Caches struct{}

// Stats returns the statistics of kernel caches.
func (Caches) Stats() []measure.Stat { return collect.CacheStats() }

// Open opens the files below /proc/sys/fs, and /proc/slabinfo if it is needed. An error means that
// nothing can be measured. The caller closes the Reading.
func (Caches) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &cacheReading{last: map[string]uint64{}}
	var err error
	for i, name := range []string{"dentry-state", "inode-state", "file-nr"} {
		if r.files[i], err = proc.OpenProc(env.Root, "sys/fs/"+name); err != nil {
			r.notes = append(r.notes, err.Error())
		}
	}
	if want.Stat("cache.bytes") {
		r.slabs, err = proc.OpenProc(env.Root, "slabinfo")
		switch {
		case errors.Is(err, measure.ErrDenied):
			r.noSlabs = kernel.RefusedNote(
				"only root may read slabs (/proc/slabinfo)", "read /proc/slabinfo",
				unix.CAP_DAC_OVERRIDE,
			)
		case err != nil:
			r.noSlabs = err.Error()
		}
	}
	if want.Stat("cache.buckets") {
		if env.Root.Real() {
			r.buckets = bootBuckets()
		}
		if len(r.buckets) == 0 {
			r.noBuckets = "the sizes of the dentry and inode hash tables are only in the boot " +
				"messages, which are not readable or already overwritten"
		}
	}
	return r, nil
}

type cacheReading struct {
	files     [3]*proc.File
	notes     []string // why files could not be opened
	slabs     *proc.File
	slabTable slabTable
	noSlabs   string
	buckets   map[string]float64 // of dentry and inode, where known
	noBuckets string
	last      map[string]uint64 // entries by name of cache
}

// parseNumbers parses up to len(dst) numbers, as in /proc/sys/fs/dentry-state, and returns how many
// there are.
func parseNumbers(dst []uint64, b []byte) int {
	c := proc.Scan(b)
	for i := range dst {
		if !c.More() {
			return i
		}
		v := c.Int()
		if c.Err() != nil {
			return i
		}
		// a sum over CPUs that change meanwhile may be slightly below zero
		dst[i] = uint64(max(v, 0))
	}
	return len(dst)
}

func (r *cacheReading) Read(out *collect.Out) error {
	for _, n := range r.notes {
		out.NoteAll(n)
	}
	var v [6]uint64
	// "nr_dentry nr_unused age_limit want_pages nr_negative dummy"; nr_negative since Linux 5.0
	// (proc_sys_fs(5)).
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
	limit, n := out.Table("cache.limit"), r.numbers(v[:3], 2)
	if n >= 2 { // "allocated free max"; free is 0 since Linux 2.6
		r.put(out, "file", v[0]-min(v[1], v[0]))
	}
	if n == 3 {
		limit.Row(float64(v[2]), "", "file")
	} else {
		limit.Lacks("/proc/sys/fs/file-nr does not show how many files may be open")
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

func (r *cacheReading) put(out *collect.Out, name string, entries uint64) {
	cache, none := out.Label(name), out.Label("")
	out.Table("cache.entries").Put(float64(entries), none, cache)
	last, had := r.last[name]
	if had || out.First { // since boot: it began at zero
		out.Table("cache.growth").Put(float64(entries)-float64(last), none, cache)
	}
	r.last[name] = entries
}

// parseSlabLine parses a line of /proc/slabinfo (slabinfo(5)). It returns the objects in use and
// the pages of all slabs, used or not.
//
//	# name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables ...
//	: slabdata <active_slabs> <num_slabs> ...
func parseSlabLine(line []byte) (name []byte, objects, pages uint64, ok bool) {
	c := proc.Scan(line)
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
			return name, objects, slabs * perSlab, c.Err() == nil && slabs < 1<<40 &&
				perSlab < 1<<16
		}
	}
	return nil, 0, 0, false
}

// slabShare limits the time spent in /proc/slabinfo to 1/slabShare. One reading takes 0.5 to 1.5 ms
// with 230 caches on a small machine. It takes tens of milliseconds where lists of partial slabs
// are long (count_partial in mm/slub.c).
const slabShare = 2000

// slabTable is the content of the latest reading of /proc/slabinfo.
type slabTable struct {
	rows     []slabRow
	epoch    int
	readings int
	age      measure.Span // measured time since that reading
	due      time.Time    // of the next; the first two are always taken, so that growth is known
}

type slabRow struct {
	name           string // after "slab:"
	cache          measure.Label
	objects, pages uint64
	grown          float64 // per nanosecond since the previous reading; NaN: unknown
}

func (r *cacheReading) putSlabs(out *collect.Out) error {
	t := &r.slabTable
	t.age += out.Over().Span()
	fresh := t.readings < 2 || out.First || !time.Now().Before(t.due)
	if fresh {
		start := time.Now()
		b, err := r.slabs.Read()
		if err != nil {
			return err
		}
		t.due = start.Add(min(time.Since(start)*slabShare, time.Minute))
		t.take(b)
	}
	if t.epoch != out.Epoch || fresh {
		t.epoch = out.Epoch
		for i := range t.rows {
			t.rows[i].cache = out.Label(t.rows[i].name)
		}
	}
	size, page, none := out.Table("cache.bytes"), float64(os.Getpagesize()), out.Label("")
	entries, growth := out.Table("cache.entries"), out.Table("cache.growth")
	for i := range t.rows {
		row := &t.rows[i]
		size.Put(float64(row.pages)*page, none, row.cache)
		entries.Put(float64(row.objects), none, row.cache)
		switch {
		case !fresh:
			growth.Put(math.NaN(), none, row.cache)
		case out.First:
			growth.Put(float64(row.objects), none, row.cache) // since boot: it began at zero
		case row.grown == row.grown:
			growth.Put(row.grown*float64(out.Over().Span()), none, row.cache)
		}
	}
	if !fresh {
		const why = "slabs are not read every interval, because the kernel needs long for it: " +
			"between readings their sizes are repeated and their growth is unknown"
		size.Note(why)
		entries.Note(why)
		growth.Note(why)
	}
	return nil
}

// take parses the text and compares it with the previous reading. The caches are in the same order
// each time. A new one has no growth.
func (t *slabTable) take(b []byte) {
	before, since := t.rows, float64(t.age)
	next := 0 // where the row is expected in the previous rows
	rows := make([]slabRow, 0, len(before)+16)
	for len(b) > 0 {
		var line []byte
		line, b = procfs.CutLine(b)
		name, objects, pages, ok := parseSlabLine(line)
		if !ok {
			continue
		}
		row := slabRow{objects: objects, pages: pages, grown: math.NaN()}
		is := func(r slabRow) bool { return r.name[len("slab:"):] == string(name) }
		if next >= len(before) || !is(before[next]) {
			if i := slices.IndexFunc(before, is); i >= 0 {
				next = i
			} else {
				row.name = "slab:" + string(name)
			}
		}
		if row.name == "" {
			row.name = before[next].name
			if since > 0 {
				row.grown = (float64(objects) - float64(before[next].objects)) / since
			}
			next++
		}
		rows = append(rows, row)
	}
	t.rows, t.age = rows, 0
	t.readings++
}

func (r *cacheReading) Close() {
	for _, f := range r.files {
		f.Close()
	}
	r.slabs.Close()
}

// bootBuckets returns the sizes of the dentry and inode hash tables from the boot messages, the
// only place where the kernel prints them: "Dentry cache hash table entries: 4194304 (order: 13,
// 33554432 bytes, linear)". They are among the first hundred messages.
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
		// overwritten meanwhile: the next read continues after the gap
		if errors.Is(err, unix.EPIPE) {
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
	for prefix, name := range map[string]string{
		"Dentry cache hash table entries: ": "dentry",
		"Inode-cache hash table entries: ":  "inode",
	} {
		if _, after, found := bytes.Cut(b, []byte(prefix)); found {
			digits, _, _ := strings.Cut(string(after), " ")
			v, err := proc.ParseUint([]byte(digits))
			return name, float64(v), err == nil && v > 0
		}
	}
	return "", 0, false
}
