package profile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// LegacyPProf is the profiles of gperftools, of Go before 1.9 and of Java's agents for pprof:
// addresses, with the files that were mapped at the end. Package profile parses them.
const LegacyPProf Format = "legacy profile of gperftools or Go"

// legacyHeads are the first words of the text formats.
//
// table: legacy_profile.go and legacy_java_profile.go of package profile
var legacyHeads = []string{"heap profile: ", "heapz profile: ", "--- heapz ", "--- contention",
	"--- mutex:", "--- threadz ", "threadz "}

// looksLegacy reports whether an input begins like a legacy profile.
func looksLegacy(head []byte) bool {
	first, _, _ := bytes.Cut(head, []byte("\n"))
	for _, h := range legacyHeads {
		if bytes.HasPrefix(head, []byte(h)) {
			// The name of a function can begin like that.
			return bytes.IndexByte(first, ';') < 0 || !counted(trimCR(first))
		}
	}
	return looksLegacyCPU(head)
}

// looksLegacyCPU reports whether an input begins like a binary CPU profile: five words of 4 or 8
// bytes, 0, 3, the version 0 or 1, the period in microseconds, 0.
func looksLegacyCPU(head []byte) bool {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, size := range []int{4, 8} {
			if len(head) < 5*size {
				continue
			}
			word := func(i int) uint64 {
				if size == 4 {
					return uint64(order.Uint32(head[4*i:]))
				}
				return order.Uint64(head[8*i:])
			}
			if word(0) == 0 && word(1) == 3 && word(2) <= 1 && word(3) > 0 && word(3) < 1<<32 &&
				word(4) == 0 {
				return true
			}
		}
	}
	return false
}

// legacyBytes is what package profile takes for a byte of a legacy profile: an address of four
// bytes is a location and a pointer in two tables.
const legacyBytes = 64

func readLegacy(r io.Reader, o Options) (*Tree, error) {
	in, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if int64(len(in)) > maxProfile {
		return nil, &ParseError{Byte: maxProfile, What: "a profile of more than 2 GB"}
	}
	o.meter.add(legacyBytes * len(in))
	p, err := parseLegacy(in)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, &ParseError{Line: 1, What: string(LegacyPProf) + ": " + err.Error()}
	}
	return treeOfPProf(p, o)
}

// parseLegacy parses a legacy profile.
func parseLegacy(in []byte) (p *profile.Profile, err error) {
	defer func() {
		if recover() != nil { // the package trusts what it reads
			err = errors.New("it is damaged")
		}
	}()
	return profile.ParseData(in)
}

// namePProf names the locations of a profile that have an address in a file and no function, with
// the files of this machine. It returns why some have no names.
func namePProf(p *profile.Profile, o Options) (reasons []string) {
	if o.Names == nil {
		return nil
	}
	unnamed := map[*profile.Mapping][]*profile.Location{}
	for _, l := range p.Location {
		m := l.Mapping
		if m != nil && len(l.Line) == 0 && path.IsAbs(m.File) && l.Address >= m.Start &&
			(m.Limit == 0 || l.Address < m.Limit) {
			unnamed[m] = append(unnamed[m], l)
		}
	}
	for _, m := range p.Mapping {
		locations := unnamed[m]
		if len(locations) == 0 {
			continue
		}
		if m.BuildID == "" {
			reasons = append(reasons, fmt.Sprintf("functions of %s are named by the file here: "+
				"the profile has no build ID of the recorded one", clean(shortened(m.File, 200))))
		}
		offsets := make([]uint64, len(locations))
		for i, l := range locations {
			offsets[i] = l.Address - m.Start + m.Offset
		}
		names, err := o.Names.Functions(m.File, strings.ToLower(m.BuildID), offsets)
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("functions of %s have no names: %s",
				clean(shortened(m.File, 200)), clean(err.Error())))
			continue
		}
		for i, l := range locations {
			for _, name := range names[i] {
				l.Line = append(l.Line, profile.Line{Function: &profile.Function{
					Name: string(frameName(name)),
				}})
			}
		}
	}
	return slices.Compact(reasons)
}
