package symbol

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"culprit/kernel"

	"golang.org/x/sys/unix"
)

// mappedFiles are the files that processes execute, open since one of them mapped the file: it may
// lose its name, and the mount namespace in which it has the name may end with the last process.
type mappedFiles struct {
	open  map[mappedID]*mappedFileOpen
	files int // in open with an open file
	swept time.Time
	left  int           // files that may be opened until the next sweep
	asked []openRequest // files to open
}

// A mappedID identifies a file as the kernel reports it.
type mappedID struct {
	device, inode uint64
	path          string
}

// A mappedFileOpen is a file that a process mapped.
type mappedFileOpen struct {
	file  *os.File // nil: it could not be opened
	used  time.Time
	tries int // failed ones
	asked int // 1 + index in mappedFiles.asked; 0: not asked for
}

const (
	// mostMapped is how many files are known, mostMappedOpen how many are open.
	mostMapped, mostMappedOpen = 2048, 192
	// mappedUnused is how long a file stays open without a new mapping. Its file system cannot be
	// unmounted meanwhile.
	mappedUnused = 30 * time.Second
	// mappedSweep is the pause between two closings of unused files, and mostOpenedPer how many
	// files are opened within it: builds run new programs without end.
	mappedSweep   = time.Second
	mostOpenedPer = 200
	// mostTries is how many processes must map a file before it counts as one that cannot be
	// opened.
	mostTries = 8
)

// note asks for a file that a process has just mapped to be opened, unless it is open.
func (c *mappedFiles) note(pid, parent int, m *Mapping) {
	id := mappedID{m.Device, m.Inode, m.Path}
	of := c.open[id]
	if of == nil {
		if len(c.open) >= mostMapped {
			return
		}
		of = &mappedFileOpen{}
		c.open[id] = of
	}
	of.used = time.Now()
	if of.file != nil || of.tries >= mostTries {
		return
	}
	mapping := openMapping{pid, parent, *m}
	switch {
	case of.asked > 0:
		if q := &c.asked[of.asked-1]; len(q.mappings) < mostTries {
			q.mappings = append(q.mappings, mapping)
		}
	case c.left > 0 && c.files+len(c.asked) < mostMappedOpen:
		c.left--
		c.asked = append(c.asked, openRequest{id: id, mappings: []openMapping{mapping}})
		of.asked = len(c.asked)
	}
}

// take returns the files that were asked for.
func (c *mappedFiles) take() []openRequest {
	asked := c.asked
	c.asked = nil
	for i := range asked {
		if of := c.open[asked[i].id]; of != nil {
			of.asked = 0
		}
	}
	return asked
}

// keep keeps the files that were opened.
func (c *mappedFiles) keep(opened []openRequest) {
	for i := range opened {
		q := &opened[i]
		of := c.open[q.id]
		switch {
		case q.file == nil:
			if of != nil {
				of.tries += len(q.mappings)
			}
		case of == nil || of.file != nil || c.files >= mostMappedOpen: // closed meanwhile
			q.file.Close() //nolint:errcheck // nothing was read
		default:
			of.file = q.file
			c.files++
		}
	}
}

// findMapped opens a file through the first of its mappings that has it.
func findMapped(root kernel.Root, q openRequest) (f *os.File, err error) {
	for i := range q.mappings {
		o := &q.mappings[i]
		if f, err = findMapping(root, o.pid, o.parent, &o.m); err == nil {
			return f, nil
		}
	}
	return nil, err
}

// findMapping opens the file of a mapping: through the mapping, else by its name below the root of
// the process, of its parent, and here, if it is the same file.
func findMapping(root kernel.Root, pid, parent int, m *Mapping) (*os.File, error) {
	in := func(pid int, name string) string {
		return root.InProc(strconv.Itoa(pid) + "/" + name)
	}
	mapped := fmt.Sprintf("map_files/%x-%x", m.Start, m.End)
	if f, _, err := openRegular(in(pid, mapped)); err == nil {
		return f, nil
	}
	if m.Deleted {
		return nil, fs.ErrNotExist
	}
	for _, dir := range []string{in(pid, "root"), in(parent, "root"), "/"} {
		f, key, err := openBelow(dir, m.Path)
		if err != nil {
			continue
		}
		if m.isFile(key) {
			return f, nil
		}
		f.Close() //nolint:errcheck // nothing was read
	}
	return nil, fs.ErrNotExist
}

// isFile reports whether a file is that of the mapping. Some file systems (btrfs, overlayfs) report
// a device of their own, which has the major number 0.
func (m *Mapping) isFile(key fileKey) bool {
	return key.ino == m.Inode && (key.dev == m.Device || m.Device == 0 ||
		unix.Major(m.Device) == 0 || unix.Major(key.dev) == 0)
}

// duplicate returns the open file of a mapping with a descriptor of its own. The caller closes it.
func (h *History) duplicate(m *Mapping) (*os.File, fileKey, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.files.open[mappedID{m.Device, m.Inode, m.Path}]
	if of == nil || of.file == nil {
		return nil, fileKey{}, fs.ErrNotExist
	}
	key, err := statKey(int(of.file.Fd()))
	if err != nil {
		return nil, key, err
	}
	fd, err := unix.FcntlInt(of.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, key, err
	}
	return os.NewFile(uintptr(fd), of.file.Name()), key, nil
}

// sweep closes files that were not mapped lately.
func (c *mappedFiles) sweep() {
	if time.Since(c.swept) < mappedSweep {
		return
	}
	c.swept, c.left = time.Now(), mostOpenedPer
	for id, of := range c.open {
		if time.Since(of.used) > mappedUnused {
			c.drop(id)
		}
	}
}

func (c *mappedFiles) drop(id mappedID) {
	if f := c.open[id].file; f != nil {
		f.Close() //nolint:errcheck // it was read from
		c.files--
	}
	delete(c.open, id)
}

func (c *mappedFiles) closeAll() {
	for id := range c.open {
		c.drop(id)
	}
}
