package trace

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"culprit/kernel/bpf"

	"github.com/cilium/ebpf"
)

// A replacedMap is an inner map of an array of maps. User space replaces it to read it while no
// program uses it. Two maps alternate, because the kernel needs some milliseconds to create one.
type replacedMap struct {
	what  string // for errors: aggregation @a
	outer *ebpf.Map
	index uint32    // of inner in outer
	inner *ebpf.Map // the map that programs use now
	// spare is the empty map that programs will use next; nil: none was needed yet.
	spare   *ebpf.Map
	spec    *ebpf.MapSpec
	placing chan error // receives when the first map is in outer; nil: it is
}

// open creates the first map and installs it. early also creates the spare one: a limit of locked
// memory may leave none later.
func (m *replacedMap) open(early bool) (err error) {
	if m.inner, err = m.spareMap(); err != nil {
		return err
	}
	if early {
		if m.spare, err = bpf.NewMap(m.spec); err != nil {
			m.close()
			return fmt.Errorf("create a map for %s: %w", m.what, err)
		}
	}
	if err := m.place(); err != nil {
		m.close()
		return err
	}
	return nil
}

// spareMap returns a map for programs to use next.
func (m *replacedMap) spareMap() (*ebpf.Map, error) {
	if spare := m.spare; spare != nil {
		m.spare = nil
		return spare, nil
	}
	fresh, err := bpf.NewMap(m.spec)
	if err != nil {
		return nil, fmt.Errorf("create a map for %s: %w", m.what, err)
	}
	return fresh, nil
}

// replace makes fresh the map that programs use. When it returns, no program uses the previous map
// any more: to update a map of maps, the kernel waits until no program can hold the old one
// (map_update_elem in kernel/bpf/syscall.c).
func (m *replacedMap) replace(fresh *ebpf.Map) error {
	if err := m.outer.Put(m.index, fresh); err != nil {
		return fmt.Errorf("replace the map of %s: %w", m.what, err)
	}
	return nil
}

// place installs the first map. It does not wait until replace returns: no program can hold a
// previous map.
func (m *replacedMap) place() error {
	done, first := make(chan error, 1), m.inner
	m.placing = done
	go func() { done <- m.replace(first) }()
	for {
		select {
		case err := <-m.placing:
			m.placing = nil
			return err
		default:
		}
		var id uint32
		if m.outer.Lookup(m.index, &id) == nil {
			return nil
		}
		runtime.Gosched()
	}
}

// placed waits until replace has returned for the first map.
func (m *replacedMap) placed() error {
	if m.placing == nil {
		return nil
	}
	err := <-m.placing
	m.placing = nil
	return err
}

func (m *replacedMap) close() {
	_ = m.placed() // an error no longer matters
	for _, one := range []*ebpf.Map{m.inner, m.spare} {
		if one != nil {
			one.Close() //nolint:errcheck // its contents were read, or are not needed
		}
	}
}

// replaceAll replaces maps by their spare ones. The previous ones, which no program uses any more,
// become the spare ones: the caller empties them. It returns which were replaced: with an error
// possibly not all.
func replaceAll(all []*replacedMap) (done []bool, failed error) {
	done, errs := make([]bool, len(all)), make([]error, len(all))
	// Each replacement waits some milliseconds until no program runs that began before it. They
	// wait side by side.
	var waiting sync.WaitGroup
	for i, m := range all {
		fresh, err := m.spareMap()
		if err != nil {
			failed = err
			break
		}
		change := func() {
			if errs[i] = errors.Join(m.placed(), m.replace(fresh)); errs[i] != nil {
				m.spare = fresh
				return
			}
			m.inner, m.spare, done[i] = fresh, m.inner, true
		}
		if i == len(all)-1 {
			change()
			break
		}
		waiting.Go(change)
	}
	waiting.Wait()
	return done, errors.Join(failed, errors.Join(errs...))
}
