package symbol

import (
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

	"culprit/symbol/unwind"
)

// A frameDigest is the digest of all that determines the unwind table of a file.
type frameDigest [sha256.Size]byte

// frameDigest returns the digest of a file's unwind information and program headers: files with one
// digest have one table, whoever wrote them. Containers have the same libraries in different file
// systems, and a table is expensive in time and in kernel memory. A build id does not serve: the
// author of a file chooses it. !ok: the file has no unwind information, it cannot be
// read, or it is a program of Go, whose table has more than that.
func (h *header) frameDigest() (d frameDigest, ok bool) {
	isGo := h.isGo()
	at, ok := h.frameSection(isGo)
	if !ok || isGo || at.size > unwind.MostBytes || at.off > h.size || at.size > h.size-at.off {
		return d, false
	}
	sum := sha256.New()
	fmt.Fprintln(sum, isGo, at.debug, at.addr, at.size)
	parts := []struct{ off, size uint64 }{{at.off, at.size}}
	for _, p := range h.progs {
		fmt.Fprintln(sum, p)
		if p.kind == ptFrameHeader && p.filesz <= unwind.MostBytes {
			parts = append(parts, struct{ off, size uint64 }{p.off, p.filesz})
		}
	}
	for _, part := range parts {
		n, err := io.Copy(sum, io.NewSectionReader(h.r, int64(part.off), int64(part.size)))
		if err != nil || uint64(n) != part.size {
			return d, false
		}
	}
	sum.Sum(d[:0])
	return d, true
}

// isGo reports whether the file is a program of Go.
func (h *header) isGo() bool {
	return slices.ContainsFunc(h.secs, func(s section) bool {
		return strings.HasSuffix(h.nameOf(&s), ".gopclntab")
	})
}
