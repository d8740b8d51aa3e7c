package store

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"culprit/measure"
)

// Options configure an archive. The zero value suits a server.
type Options struct {
	KeepTicks   measure.Span // how long ticks are stored; 0: 7 days
	KeepMinutes measure.Span // how long rollups of a minute are stored; 0: 14 days
	KeepHours   measure.Span // how long rollups of an hour are stored; 0: 90 days
	Size        int64        // limit of bytes on disk, the oldest data is deleted first; 0: 2 GB
	// limit of rows of a dataset in one tick, the excess is a Loss; 0: 20,000
	Rows   int
	Memory int // limit of bytes of the newest ticks in memory; 0: 32 MB
	// when the disk is full, keep old data and drop new; otherwise delete the oldest
	KeepOld bool

	fs    vfs.FS           // nil: the operating system's
	clock func() time.Time // nil: time.Now

	retryAfter time.Duration // least delay before Pebble is reopened after a failure; 0: 5 seconds
}

func (o Options) filled() Options {
	fill(&o.KeepTicks, 7*24*60*measure.Minute)
	fill(&o.KeepMinutes, 14*24*60*measure.Minute)
	fill(&o.KeepHours, 90*24*60*measure.Minute)
	fill(&o.Size, 2<<30)
	fill(&o.Rows, 20000)
	fill(&o.Memory, 32<<20)
	fill(&o.retryAfter, 5*time.Second)
	if o.fs == nil {
		o.fs = vfs.Default
	}
	if o.clock == nil {
		o.clock = time.Now
	}
	return o
}

func fill[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}
