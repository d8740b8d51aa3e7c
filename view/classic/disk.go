package classic

import "culprit/view"

import "culprit/measure"

// Disk returns the tool disk, like iostat -x.
func Disk() *view.Tool {
	return &view.Tool{
		Name:  "disk",
		Short: "requests, throughput, waiting time, queue and utilization of disks (iostat -x)",
		Long: `One row per disk, with iostat's columns; kB are 1024 bytes. await is the mean time, in ms, of the
requests that finished in the interval, from entering the queue to completion. aqu-sz is the mean
number of requests in the queue or at the device. %util is the share of time in which the device had
at least one request. An SSD or an array that serves many requests at once may be at 100 % and far
from its limit: look at await and aqu-sz.
LVM, LUKS and multipath devices are shown and named by their name in /dev/mapper, as iostat -N does;
dm-3 is in the column device of --json.
-p adds partitions. Idle virtual devices (loop, ram, zram) are hidden.`,
		Examples: []view.Example{
			{Line: "culprit disk 1", Means: "every second"},
			{Line: "culprit disk -p -w 5 3", Means: "with partitions and all columns"},
		},
		Operand: "device",
		Flags: []view.Flag{
			{Name: "partitions", Letter: "p", Help: "also partitions"},
			{
				Name:       "device",
				Letter:     "d",
				Value:      "NAME",
				Many:       true,
				NamesQuery: "disk.info by device",
				AliasQuery: "disk.name by name",
				Help:       "only these devices (comma list with * and ?)",
			},
			{Name: "idle", Letter: "z", Help: "hide idle devices"},
		},
		Ask: func(view.Options) []string {
			return []string{
				"disk.operations by device,direction",
				"disk.bytes by device,direction",
				"disk.merges by device,direction",
				"disk.wait by device,direction",
				"disk.busy by device",
				"disk.queue by device",
				"disk.errors by device",
				"disk.inflight by device",
				"disk.info by device,kind,parent",
				"disk.name by device,name",
			}
		},
		MinWidth: map[measure.StatID]int{
			"disk.merges":   120,
			"disk.errors":   150,
			"disk.inflight": 190,
		},
		Table: diskTable,
		Drill: func(*view.Table, *view.Row) *view.Drill {
			return &view.Drill{
				Tool:  "ps",
				Title: "processes by bytes written to storage",
				Sort:  "written_bytes_per_s",
			}
		},
	}
}

func diskColumns() []view.Column {
	return []view.Column{
		{Name: "device", Head: "Device", Width: 8, Left: true, Help: "block device"},
		{Name: "name", Help: "its name in /dev/mapper, if device mapper made it"},
		{Name: "reads_per_s", Head: "r/s", Decimals: 2, Width: 6, Help: "reads finished"},
		{Name: "writes_per_s", Head: "w/s", Decimals: 2, Width: 6, Help: "writes finished"},
		{
			Name:     "read_bytes_per_s",
			Head:     "rkB/s",
			Show:     view.KiB,
			Decimals: 2,
			Width:    8,
			Help:     "read",
		},
		{
			Name:     "written_bytes_per_s",
			Head:     "wkB/s",
			Show:     view.KiB,
			Decimals: 2,
			Width:    8,
			Help:     "written",
		},
		{
			Name:     "read_await_ns",
			Head:     "r_await",
			Show:     view.Millis,
			Decimals: 2,
			Width:    7,
			Help:     "mean time of a read, ms",
		},
		{
			Name:     "write_await_ns",
			Head:     "w_await",
			Show:     view.Millis,
			Decimals: 2,
			Width:    7,
			Help:     "mean time of a write, ms",
		},
		{
			Name:     "queue",
			Head:     "aqu-sz",
			Decimals: 2,
			Width:    6,
			Help:     "mean number of requests in the queue or at the device",
		},
		{
			Name:     "util",
			Head:     "%util",
			Show:     view.Percent,
			Decimals: 2,
			Width:    6,
			Help:     "share of the time with at least one request",
		},
		{
			Name:     "read_avg_bytes",
			Head:     "rareq-sz",
			Show:     view.KiB,
			Decimals: 2,
			Width:    8,
			MinWidth: 100,
			Help:     "mean size of a read, KiB",
		},
		{
			Name:     "write_avg_bytes",
			Head:     "wareq-sz",
			Show:     view.KiB,
			Decimals: 2,
			Width:    8,
			MinWidth: 100,
			Help:     "mean size of a write, KiB",
		},
		{
			Name:     "read_merges_per_s",
			Head:     "rrqm/s",
			Decimals: 2,
			Width:    7,
			MinWidth: 120,
			Help:     "reads merged with an earlier one",
		},
		{
			Name:     "write_merges_per_s",
			Head:     "wrqm/s",
			Decimals: 2,
			Width:    7,
			MinWidth: 120,
			Help:     "writes merged with an earlier one",
		},
		{
			Name:     "discards_per_s",
			Head:     "d/s",
			Decimals: 2,
			Width:    6,
			MinWidth: 140,
			Help:     "discards finished",
		},
		{
			Name:     "flushes_per_s",
			Head:     "f/s",
			Decimals: 2,
			Width:    6,
			MinWidth: 140,
			Help:     "flushes finished",
		},
		{
			Name:     "flush_await_ns",
			Head:     "f_await",
			Show:     view.Millis,
			Decimals: 2,
			Width:    7,
			MinWidth: 140,
			Help:     "mean time of a flush, ms",
		},
		{
			Name:     "errors_per_s",
			Head:     "err/s",
			Decimals: 2,
			Width:    5,
			MinWidth: 150,
			Help:     "requests that failed, where the driver counts them",
		},
		{
			Name:     "read_merge_ratio",
			Head:     "%rrqm",
			Show:     view.Percent,
			Decimals: 2,
			Width:    6,
			MinWidth: 190,
			Help:     "share of requested reads that were merged",
		},
		{
			Name:     "write_merge_ratio",
			Head:     "%wrqm",
			Show:     view.Percent,
			Decimals: 2,
			Width:    6,
			MinWidth: 190,
			Help:     "share of requested writes that were merged",
		},
		{
			Name:     "discarded_bytes_per_s",
			Head:     "dkB/s",
			Show:     view.KiB,
			Decimals: 2,
			Width:    8,
			MinWidth: 190,
			Help:     "discarded",
		},
		{
			Name:     "discard_merges_per_s",
			Head:     "drqm/s",
			Decimals: 2,
			Width:    6,
			MinWidth: 190,
			Help:     "discards merged with an earlier one",
		},
		{
			Name:     "discard_merge_ratio",
			Head:     "%drqm",
			Show:     view.Percent,
			Decimals: 2,
			Width:    6,
			MinWidth: 190,
			Help:     "share of requested discards that were merged",
		},
		{
			Name:     "discard_await_ns",
			Head:     "d_await",
			Show:     view.Millis,
			Decimals: 2,
			Width:    7,
			MinWidth: 190,
			Help:     "mean time of a discard, ms",
		},
		{
			Name:     "discard_avg_bytes",
			Head:     "dareq-sz",
			Show:     view.KiB,
			Decimals: 2,
			Width:    8,
			MinWidth: 190,
			Help:     "mean size of a discard, KiB",
		},
		{
			Name:     "inflight",
			Head:     "now",
			Width:    4,
			MinWidth: 190,
			Help:     "requests under way at the end of the interval",
		},
	}
}

func diskTable(o view.Options, f *view.Frame) *view.Table {
	t := f.NewTable("disk", diskColumns)
	p := f.NewPivot("device")
	directed := func(id measure.StatID, words ...string) (cols [4]int) {
		a := f.Of(id)
		for k, w := range words {
			cols[k] = p.Add(a, "direction", w)
		}
		return cols
	}
	ops := directed("disk.operations", "read", "write", "discard", "flush")
	bytes := directed("disk.bytes", "read", "write", "discard")
	merges := directed("disk.merges", "read", "write", "discard")
	wait := directed("disk.wait", "read", "write", "discard", "flush")
	busy, queue, errors, inflight := p.Add(
		f.Of("disk.busy"),
	), p.Add(
		f.Of("disk.queue"),
	), p.Add(
		f.Of("disk.errors"),
	), p.Add(
		f.Of("disk.inflight"),
	)
	p.Join("info", f.Of("disk.info"))
	p.Join("mapped", f.Of("disk.name"))
	p.Sort()
	for r := range p.Len() {
		device, kind := p.Key(r, "device"), p.Word(r, "info", "kind")
		mapped := p.Word(r, "mapped", "name")
		active := false
		for _, c := range ops {
			active = active || p.At(r, c) > 0
		}
		named := len(o["device"]) > 0
		switch {
		case named && !view.MatchAny(o["device"], device) && !view.MatchAny(o["device"], mapped):
			continue
		case kind == "partition" && !o.Has("partitions") && !named:
			continue
		case !active && (o.Has("idle") || kind == "virtual" && !named):
			continue
		}
		// The mean time of the finished requests, in ns; NaN if none finished.
		await := func(k int) float64 {
			if p.At(r, ops[k]) == 0 {
				return measure.NaN
			}
			return p.At(r, wait[k]) * 1e9 / p.At(r, ops[k])
		}
		merged := func(k int) float64 { // NaN without requests
			asked := p.At(r, merges[k]) + p.At(r, ops[k])
			if asked == 0 {
				return measure.NaN
			}
			return p.At(r, merges[k]) / asked
		}
		util := p.At(r, busy)
		t.Rows = append(
			t.Rows,
			view.Row{Key: device, Label: mapped, Cells: f.CopyCells(
				view.T(device),
				view.TOrNull(mapped),
				view.N(p.At(r, ops[0])),
				view.N(p.At(r, ops[1])),
				view.N(p.At(r, bytes[0])),
				view.N(p.At(r, bytes[1])),
				view.N(
					await(0),
				),
				view.N(await(1)),
				view.N(p.At(r, queue)),
				view.N(min(util, 1)),
				view.N(average(p.At(r, bytes[0]), p.At(r, ops[0]))),
				view.N(average(p.At(r, bytes[1]), p.At(r, ops[1]))),
				view.N(
					p.At(r, merges[0]),
				),
				view.N(p.At(r, merges[1])),
				view.N(p.At(r, ops[2])),
				view.N(p.At(r, ops[3])),
				view.N(await(3)),
				view.N(p.At(r, errors)),
				view.N(
					merged(0),
				),
				view.N(merged(1)),
				view.N(p.At(r, bytes[2])),
				view.N(p.At(r, merges[2])),
				view.N(merged(2)),
				view.N(await(2)),
				view.N(average(p.At(r, bytes[2]), p.At(r, ops[2]))),
				view.N(p.At(r, inflight)),
			)},
		)
	}
	return t
}
