package classic

import (
	"culprit/measure"
	"culprit/view"
)

// DF returns the tool df, like df -h and df -i in one table.
func DF() *view.Tool {
	return &view.Tool{
		Name:  "df",
		Short: "file systems: size, use, inodes, read-only (df -h, df -i)",
		Long: `One row per file system, at its shortest mount point. %Use is used / (used + avail), as in df: what
is reserved for root counts as neither. %IUse is the share of inodes in use; "-" if the file system
creates them as needed. With either at 100 a write or a new file fails with ENOSPC. Access is rw, ro,
or failed: the kernel made the file system read-only after an error, though it is mounted rw.
-i shows inodes in place of bytes, like df -i. Types that are full by their nature (squashfs, erofs,
iso9660) are hidden without -a. Network and FUSE file systems are not read, because statfs of one
whose server is gone hangs; a note names them.`,
		Examples: []view.Example{
			{Line: "culprit df", Means: "now"},
			{Line: "culprit df --sort use_ratio", Means: "fullest first"},
			{Line: "culprit df -i --sort inodes_ratio", Means: "inodes, fullest first"},
			{Line: "culprit df -m / 10", Means: "one file system, every ten seconds"},
		},
		Operand: "mount",
		Flags: []view.Flag{
			{Name: "inodes", Letter: "i", Help: "inodes in place of bytes"},
			{
				Name:       "mount",
				Letter:     "m",
				Value:      "PATH",
				Many:       true,
				NamesQuery: "filesystem.access by mount",
				Help:       "only those mounted at these paths (comma list with * and ?)",
			},
			{Name: "all", Letter: "a", Help: "also those that are full by their nature or have no size"},
		},
		Once: true,
		Ask: func(view.Options) []string {
			return []string{
				"filesystem.size by mount,device,type,kind",
				"filesystem.inodes by mount,device,type,kind",
				"filesystem.access by mount,device,type,access",
			}
		},
		Table: dfTable,
	}
}

func dfColumns(inodes bool) []view.Column {
	head := func(show bool, h string) string {
		if show {
			return h
		}
		return ""
	}
	bytes := func(name, h, help string) view.Column {
		return view.Column{Name: name, Head: head(!inodes, h), Show: view.HumanBytes, Width: 6,
			Help: help}
	}
	count := func(name, h, help string) view.Column {
		return view.Column{Name: name, Head: head(inodes, h), Width: 10, Help: help}
	}
	share := func(name, h, help string) view.Column {
		return view.Column{Name: name, Head: h, Show: view.Percent, Decimals: 1, Width: 5,
			Help: help}
	}
	return []view.Column{
		{Name: "device", Head: "Filesystem", Width: 14, Left: true, Help: "what is mounted"},
		{Name: "type", Head: "Type", Width: 8, Left: true, Help: "ext4 xfs btrfs tmpfs ..."},
		bytes("size_bytes", "Size", "size"),
		bytes("used_bytes", "Used", "used"),
		bytes("available_bytes", "Avail", "available to users other than root"),
		share("use_ratio", head(!inodes, "%Use"), "used / (used + available)"),
		count("inodes", "Inodes", "number of inodes"),
		count("inodes_used", "IUsed", "used inodes"),
		count("inodes_free", "IFree", "free inodes"),
		share("inodes_ratio", "%IUse", "share of inodes in use"),
		{Name: "access", Head: "Access", Width: 6, Left: true,
			Help: "rw, ro, or failed: read-only after an error"},
		{Name: "mount", Head: "Mounted on", Width: 10, Left: true, Help: "where it is mounted"},
	}
}

func dfTable(o view.Options, f *view.Frame) *view.Table {
	t := &view.Table{View: "df", Columns: dfColumns(o.Has("inodes"))}
	p := f.NewPivot("mount", "device", "type")
	kinds := func(id measure.StatID) (c [3]int) {
		for i, kind := range []string{"total", "used", "available"} {
			c[i] = p.Add(f.Of(id), "kind", kind)
		}
		return c
	}
	size, inodes := kinds("filesystem.size"), kinds("filesystem.inodes")
	modes := []string{"failed", "ro", "rw"} // after a change within the interval the worst
	var access [3]int
	for i, mode := range modes {
		access[i] = p.Add(f.Of("filesystem.access"), "access", mode)
	}
	p.Sort()
	for r := range p.Len() {
		if !dfShows(o, p.Key(r, "mount"), p.Key(r, "type"), p.At(r, size[0])) {
			continue
		}
		row := view.Row{Key: p.ID(r)}
		mode := ""
		for i := range modes {
			if p.At(r, access[i]) > 0 {
				mode = modes[i]
				break
			}
		}
		if mode == "failed" {
			row.Remark = "read-only after an error: see the kernel log"
		}
		used, left := p.At(r, size[1]), p.At(r, size[2])
		row.Cells = []view.Cell{
			view.TOrNull(p.Key(r, "device")),
			view.TOrNull(p.Key(r, "type")),
			view.N(p.At(r, size[0])),
			view.N(used),
			view.N(left),
			view.N(average(used, used+left)),
			view.N(p.At(r, inodes[0])),
			view.N(p.At(r, inodes[1])),
			view.N(p.At(r, inodes[2])),
			view.N(average(p.At(r, inodes[1]), p.At(r, inodes[0]))),
			view.TOrNull(mode),
			view.T(p.Key(r, "mount")),
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// dfShows reports whether a file system has a row. One of unknown size has none without --all,
// unless it is named.
func dfShows(o view.Options, mount, typ string, size float64) bool {
	if len(o["mount"]) > 0 {
		return view.MatchAny(o["mount"], mount)
	}
	switch typ {
	case "squashfs", "erofs", "iso9660", "cramfs", "romfs":
		return o.Has("all")
	}
	return size == size || o.Has("all")
}
