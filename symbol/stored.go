package symbol

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"culprit/kernel"
)

// A Stored names addresses of profiles that were recorded before, with the files of this machine.
// Use NewStored. For one goroutine.
type Stored struct {
	files  *Files
	root   kernel.Root
	kernel *Kernel
	left   time.Duration // for reading debug information
}

// NewStored returns a Stored. files reads files of others; nil: this process does.
func NewStored(root kernel.Root, files *Files) *Stored {
	if files == nil {
		files = ownFiles()
	}
	return &Stored{files: files, root: root, kernel: NewKernel(root), left: inlineTime}
}

// Functions returns the names of the functions at offsets of a file, for each offset the innermost
// first: those that are inlined there, then the one that contains it. nil: there is no symbol.
// buildID is that of the recorded file in hexadecimal; "" is unknown. The error says why the file
// here cannot name anything.
func (s *Stored) Functions(file, buildID string, offsets []uint64) ([][]string, error) {
	if !filepath.IsAbs(file) {
		return nil, fmt.Errorf("%s: %w", clean(file), fs.ErrNotExist)
	}
	f, _, err := openBelow("/", file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head, err := s.files.read(0, &Request{Op: OpHeader, File: f})
	if err != nil {
		return nil, err
	}
	if buildID != "" && !sameID(buildID, head.BuildID) {
		return nil, fmt.Errorf("it is another file than the recorded one (build ID %s, was %s)",
			head.BuildID, buildID)
	}
	q := Request{File: f}
	if !head.Full {
		if debug, _ := openDebugFile(head.Link.places(head.BuildID, file), "/"); debug != nil {
			defer debug.Close()
			q.Debug = debug
		}
	}
	return s.names(q, head.Loads, offsets)
}

// names looks up offsets of an open file.
func (s *Stored) names(q Request, loads []Segment, offsets []uint64) ([][]string, error) {
	at := make([]uint64, len(offsets)) // their addresses
	var addrs []uint64
	for i, offset := range offsets {
		at[i] = ^uint64(0)
		for _, l := range loads {
			if offset >= l.Offset && offset-l.Offset < l.FileSize {
				at[i] = l.Addr + offset - l.Offset
				addrs = append(addrs, at[i])
				break
			}
		}
	}
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	named := make([][]string, len(addrs))
	for from := 0; from < len(addrs); from += MostAddrs {
		part := addrs[from:min(from+MostAddrs, len(addrs))]
		if err := s.part(q, part, named[from:]); err != nil {
			return nil, err
		}
	}
	out := make([][]string, len(offsets))
	for i, addr := range at {
		if n, ok := slices.BinarySearch(addrs, addr); ok {
			out[i] = named[n]
		}
	}
	return out, nil
}

// part looks up at most MostAddrs addresses.
func (s *Stored) part(q Request, addrs []uint64, named [][]string) error {
	q.Op, q.Addrs = OpNames, addrs
	a, err := s.files.read(0, &q)
	if err != nil {
		return err
	}
	for i, n := range a.Names[:min(len(a.Names), len(addrs))] {
		if n.Name != "" {
			named[i] = []string{clean(n.Name)}
		}
	}
	if s.left <= 0 {
		return nil
	}
	q.Op, q.Limit = OpInlined, s.left
	a, err = s.files.read(0, &q)
	if err != nil {
		return nil // debug information that cannot be read takes no name away
	}
	s.left -= a.CPU
	for i, inlined := range a.Inlined[:min(len(a.Inlined), len(addrs))] {
		if len(named[i]) == 0 {
			continue
		}
		for _, name := range slices.Backward(inlined) {
			named[i] = append([]string{clean(name)}, named[i]...)
		}
	}
	return nil
}

// GeneratedFunctions returns the names of the functions at addresses of a process whose
// just-in-time compiler wrote the file (jit-PID.dump); "": unknown. inode is that of the recorded
// file; 0: unknown. The error says why the file cannot be used: it is missing, it is not the
// recorded one, or its owner is neither root nor the user of the process.
func (s *Stored) GeneratedFunctions(file string, inode uint64, addrs []uint64) ([]string, error) {
	if !filepath.IsAbs(file) {
		return nil, fmt.Errorf("%s: %w", clean(file), fs.ErrNotExist)
	}
	f, key, err := openBelow("/", file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch {
	case inode != 0 && key.ino != inode:
		return nil, errors.New("it is another file than the recorded one")
	case inode == 0 && key.owner != 0 && int(key.owner) != os.Geteuid():
		return nil, fmt.Errorf("it belongs to user %d, and the recording does not identify it",
			key.owner)
	case !isDump(f):
		return nil, errors.New("it is no jitdump of this machine")
	}
	sorted := slices.Clone(addrs)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	names := make([]Name, 0, len(sorted))
	for part := range slices.Chunk(sorted, MostAddrs) {
		a, err := s.files.read(0, &Request{Op: OpGenerated, File: f, Addrs: part})
		if err != nil && len(a.Names) != len(part) {
			return nil, err
		}
		names = append(names, a.Names...)
	}
	out := make([]string, len(addrs))
	for i, addr := range addrs {
		if n, ok := slices.BinarySearch(sorted, addr); ok && n < len(names) {
			out[i] = clean(names[n].Name)
		}
	}
	return out, nil
}

// KernelFunctions returns the names of kernel addresses and the modules that contain them; "":
// unknown. The kernel has a build ID, or if that is unknown a release as uname -r prints it. text
// was the address of _text when they were recorded. The error says why this kernel names nothing:
// it is another one.
func (s *Stored) KernelFunctions(buildID, release string, text uint64, addrs []uint64) (
	names, modules []string, err error) {
	if err := s.sameKernel(buildID, release); err != nil {
		return nil, nil, err
	}
	if text == 0 {
		return nil, nil, errors.New("the profile does not tell the address of _text")
	}
	now, _, ok := s.kernel.Lookup("", "_text")
	if !ok {
		if err := s.kernel.Err(); err != nil {
			return nil, nil, err
		}
		return nil, nil, errors.New("the kernel here does not tell the address of _text")
	}
	names, modules = make([]string, len(addrs)), make([]string, len(addrs))
	for i, addr := range addrs {
		p := s.kernel.Place(addr - text + now)
		// Modules were elsewhere when the kernel was.
		if p.Module == vmlinux || now == text {
			names[i], modules[i] = p.Name, p.Module
		}
	}
	return names, modules, nil
}

// sameKernel returns nil if the running kernel has a build ID, or without one a release.
func (s *Stored) sameKernel(buildID, release string) error {
	if buildID == "" {
		if here := s.root.Release(); release == "" || release != here {
			return fmt.Errorf("it was another kernel (%s, here %s)", clean(release), here)
		}
		return nil
	}
	b, err := os.ReadFile(s.root.InSys("kernel/notes"))
	if err != nil {
		return err
	}
	if here := noteID(b); !sameID(buildID, here) {
		return fmt.Errorf("it was another kernel (build ID %s, here %s)", clean(buildID), here)
	}
	return nil
}

// sameID reports whether two build IDs are equal. perf stores 20 bytes, whatever the length.
func sameID(a, b string) bool { return strings.TrimRight(a, "0") == strings.TrimRight(b, "0") }
