package main

import (
	"fmt"
	"path/filepath"
	"time"

	"culprit/measure"
	"culprit/store"
)

// day records the last day of the 100 rows of one dataset, noisy.s00.value by row, into the directory of a server that is started on it after.
func day(dir string) error {
	const seconds = 24 * 3600
	n := newNoisy(measure.Time(time.Now().Unix()-seconds)*measure.Time(measure.Second), seconds)
	n.sets, n.batches = n.sets[:1], n.batches[:1]
	to, err := openArchive(filepath.Join(dir, "archive"), n.sets, store.Options{})
	if err != nil {
		return err
	}
	for t := n.tick(); t.recorded != nil; t = n.tick() {
		if err := to.put(t.recorded[0].Over.End, t); err != nil {
			return err
		}
	}
	if err := to.settle(); err != nil {
		return err
	}
	if err := to.close(); err != nil {
		return err
	}
	fmt.Println(n.sets[0].Query)
	return nil
}
