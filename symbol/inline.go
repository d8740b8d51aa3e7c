package symbol

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"culprit/symbol/dwarf"

	"golang.org/x/sys/unix"
)

// inlineTime is the CPU time that all reading of debug information may take.
const inlineTime = 2 * time.Second

// ErrMuchDebug is the error of a file with more compressed debug information than is read.
var ErrMuchDebug = dwarf.ErrTooMuch // table: never changed

// Inlined returns for each spot the functions that are inlined there, innermost first, without the
// one that contains them, and caveats. It reads the debug information of each file once, within a
// limit of time.
func (ps *Processes) Inlined(spots []Spot) (names [][]string, notes []string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	names = make([][]string, len(spots))
	of := map[*object][]int{}
	for i, s := range spots {
		if s.file != nil {
			of[s.file] = append(of[s.file], i)
		}
	}
	left := inlineTime
	var late []string
	for o, which := range of {
		l := ps.later[o]
		if l == nil {
			continue
		}
		addrs := make([]uint64, len(which))
		for n, i := range which {
			addrs[n] = spots[i].addr
		}
		slices.Sort(addrs)
		addrs = slices.Compact(addrs)
		found, cut, err := ps.inlinedIn(o, l, addrs, &left)
		if errors.Is(err, ErrMuchDebug) {
			notes = append(notes,
				fmt.Sprintf("inlined functions of %s are missing: it has more than %d MB of "+
					"compressed debug information", clean(l.mapping.Path), dwarf.MostPacked>>20))
		}
		if found != nil {
			for _, i := range which {
				n, _ := slices.BinarySearch(addrs, spots[i].addr)
				names[i] = found[n]
			}
		}
		if cut {
			late = append(late, clean(l.mapping.Path))
		}
	}
	if len(late) > 0 {
		slices.Sort(late)
		const most = 3
		which := strings.Join(late[:min(most, len(late))], ", ")
		if len(late) > most {
			which += fmt.Sprintf(" and %d more files", len(late)-most)
		}
		notes = append(notes, fmt.Sprintf("inlined functions of %s are incomplete: reading debug "+
			"information took %v of CPU", which, inlineTime))
	}
	slices.Sort(notes)
	return names, notes
}

// inlinedIn returns the functions inlined at addresses of a file; nil: it has no debug information.
// It takes the CPU time from left, and releases the lock meanwhile. cut: not all was read.
func (ps *Processes) inlinedIn(o *object, l *laterFile, addrs []uint64, left *time.Duration) (
	names [][]string, cut bool, err error) {
	if o.noInlined {
		return nil, false, nil
	}
	if *left <= 0 {
		return nil, true, nil
	}
	l, opened, err := ps.opened(o, l)
	if err != nil {
		return nil, false, err
	}
	defer closeAll(opened)
	a, err := ps.read(o.payer, &Request{Op: OpInlined, File: l.file, Debug: l.debug,
		Addrs: addrs[:min(len(addrs), MostAddrs)], Limit: *left})
	*left -= a.CPU
	if err == nil && !a.Found {
		o.noInlined = true
	}
	if len(a.Inlined) == 0 {
		return nil, a.Cut, err
	}
	for len(a.Inlined) < len(addrs) {
		a.Inlined = append(a.Inlined, nil)
	}
	return a.Inlined, a.Cut, err
}

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
