package captured

import (
	"fmt"
	"math"
	"slices"
)

// Kind is the kind of a table: what its rows describe.
type Kind string

// The kinds of tables.
const (
	CPUs       Kind = "cpu"        // CPU time in percent by CPU
	Paging     Kind = "paging"     // a line for the whole machine, as vmstat prints it
	Disks      Kind = "disk"       // a row per disk
	Devices    Kind = "device"     // rates of network devices
	Totals     Kind = "totals"     // counters of network devices
	Links      Kind = "link"       // speed and modes of network devices
	Addresses  Kind = "address"    // flags of network devices
	Interrupts Kind = "interrupt"  // interrupts by device and CPU
	Handlers   Kind = "handler"    // which CPU serves which interrupt
	Processes  Kind = "process"    // a row per process
	Threads    Kind = "thread"     // microstates of threads
	Memory     Kind = "memory"     // memory and swap sizes
	Load       Kind = "load"       // load averages
	Queue      Kind = "queue"      // run queue
	Overview   Kind = "overview"   // utilization of resources, as sysperfstat prints it
	Counters   Kind = "counter"    // named counters, as netstat -s prints them
	Sizes      Kind = "size"       // number of entries of a kernel table
	Samples    Kind = "sample"     // profile: function and number of samples
	Locks      Kind = "lock"       // lock contention
	Stacks     Kind = "stack"      // stacks with a count
	Latencies  Kind = "latency"    // mean latency of a function
	Buckets    Kind = "bucket"     // distribution
	Files      Kind = "filesystem" // file systems
	Flows      Kind = "flow"       // traffic between hosts
	Pressure   Kind = "pressure"   // PSI
	Throughput Kind = "throughput" // result of a load test
	Ticks      Kind = "ticks"      // counters of CPU time
	DiskTicks  Kind = "diskticks"  // counters of disks
	Packets    Kind = "packets"    // packets by CPU
	Sockets    Kind = "socket"     // connections with what TCP knows of them
	// Connections are sockets with their queues.
	Connections Kind = "connection"
	Log         Kind = "log"        // messages of the kernel
	NFS         Kind = "nfs"        // calls of mounts
	NUMA        Kind = "numa"       // counters and memory by NUMA node
	Slabs       Kind = "slab"       // caches of the kernel
	Qdiscs      Kind = "qdisc"      // queues before interfaces
	Descriptors Kind = "descriptor" // open files
)

// Table is a table that Read found.
type Table struct {
	Kind      Kind
	Tool      string // the tool that prints such tables: "mpstat"
	File      string
	Line      int    // of its first line, 1 is the first
	Host      string // "" when unknown
	Subject   string // what it describes as a whole: function, interface; "" when unknown
	Columns   []string
	Rows      []*Row
	Total     float64 // of a profile: number of samples; NaN when unknown
	Cut       bool    // its last row is incomplete
	ByShape   bool    // its header is missing: recognized by the shape of its rows
	SinceBoot bool    // its first sample is a mean since boot
	Command   string  // the prompt line above it

	scales  []float64
	words   []bool
	rest    bool
	samples int
	cpus    int // of the machine, as a banner says; 0 unknown
}

// Row is a row of a Table. Cells are in the order of Table.Columns.
type Row struct {
	Table  *Table
	Line   int
	Time   string
	Sample int // 0 is the first of repeated tables
	Cells  []string
}

func newTable(kind Kind, tool string, columns ...string) *Table {
	t := &Table{Kind: kind, Tool: tool, Total: math.NaN()}
	for _, c := range columns {
		t.addColumn(c, 1, true)
	}
	return t
}

func (t *Table) addColumn(name string, scale float64, word bool) {
	t.Columns = append(t.Columns, name)
	t.scales = append(t.scales, scale)
	t.words = append(t.words, word)
}

// add appends a row.
func (t *Table) add(line int, when string, cells ...string) *Row {
	r := &Row{Table: t, Line: line, Time: when, Cells: cells}
	if n := len(t.Rows); n > 0 {
		r.Sample = t.Rows[n-1].Sample
	}
	t.Rows = append(t.Rows, r)
	return r
}

// Word returns the text of a column; "" when the row lacks it.
func (r *Row) Word(column string) string {
	if i := r.Table.index(column); i >= 0 && i < len(r.Cells) {
		return r.Cells[i]
	}
	return ""
}

// Num returns the number of a column in its base unit; NaN when the row lacks it.
func (r *Row) Num(column string) float64 {
	i := r.Table.index(column)
	if i < 0 || i >= len(r.Cells) {
		return math.NaN()
	}
	v, ok := number(r.Cells[i])
	if !ok {
		return math.NaN()
	}
	return v * r.Table.scales[i]
}

// Place returns where the row is: "a.txt:12", or "a.json at 12:30:01".
func (r *Row) Place() string {
	if r.Line == 0 {
		return r.Table.File + " at " + r.Time
	}
	return fmt.Sprintf("%s:%d", r.Table.File, r.Line)
}

// place returns the name of the file of t, with the line where the other table is in it too.
func (t *Table) place(other *Table) string {
	if t.File == other.File {
		return fmt.Sprintf("%s:%d", t.File, t.Line)
	}
	return t.File
}

// index returns the last column of that name, -1 when there is none. vmstat of Solaris has two
// columns "sy": the last one is CPU time.
func (t *Table) index(column string) int {
	for i := len(t.Columns) - 1; i >= 0; i-- {
		if t.Columns[i] == column {
			return i
		}
	}
	return -1
}

// Has reports whether the table has all of the columns.
func (t *Table) Has(columns ...string) bool {
	return !slices.ContainsFunc(columns, func(c string) bool { return t.index(c) < 0 })
}

// measured returns the rows of intervals: without averages, and without the mean since boot when
// there are others.
func (t *Table) measured() []*Row {
	var rows []*Row
	for _, r := range t.Rows {
		if r.Time != averages && (!t.SinceBoot || t.samples < 2 || r.Sample > 0) {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return t.Rows
	}
	return rows
}
