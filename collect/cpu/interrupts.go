package cpu

import (
	"bytes"
	"errors"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Interrupts reads /proc/interrupts, the count of each interrupt on each CPU, and /proc/irq, the
// CPUs that may receive it.
//
// The file is long on large machines: 500 lines for 256 CPUs are 1.4 MB. Most lines are the same
// from reading to reading, and an unchanged line is not parsed. The kernel's counters have 32 bits
// and wrap; a 1000 Hz timer wraps in 50 days. An interrupt that is freed and set up again starts at
// zero.
//
// The sum of a CPU leaves out the line TLB of x86. These shootdowns arrive as function calls and
// are also in CAL since Linux 4.8 (commit 82ba4faca1bf). So the sum equals "intr" of /proc/stat and
// "in" of vmstat.
type Interrupts struct{}

// Stats returns the counts by CPU and by interrupt, the times and the affinities.
func (Interrupts) Stats() []measure.Stat {
	irq := measure.Field{Name: "irq", Type: measure.Word, Help: "its number, or its name if it " +
		"is internal to the CPU: LOC RES CAL TLB NMI ..."}
	device := measure.Field{Name: "device", Type: measure.Word, Help: "names of its handlers, " +
		"as drivers set them: virtio3-rx, nvme0q1; of one internal to the CPU, its purpose"}
	typ := measure.Field{Name: "type", Type: measure.Word, Help: "controller, number there and " +
		"trigger: PCI-MSIX-0000:00:04.0 1-edge; empty if internal to the CPU"}
	return []measure.Stat{
		{ID: "cpu.interrupts", Kind: measure.Delta, Unit: measure.Events, Help: "interrupts of " +
			"all kinds on a CPU (/proc/interrupts; TLB is in CAL)",
			Fields: []measure.Field{{Name: "cpu", Type: measure.Number, Help: "CPU number"}}},
		{
			ID:     "irq.count",
			Kind:   measure.Delta,
			Unit:   measure.Events,
			Sparse: true,
			Help:   "interrupts (/proc/interrupts)",
			Fields: []measure.Field{
				irq,
				{
					Name: "cpu",
					Type: measure.Number,
					Help: "CPU number; empty for ERR and MIS, which are counted for the whole " +
						"machine",
				},
				device,
				typ,
			},
		},
		{ID: "irq.time", Kind: measure.Delta, Unit: measure.Nanoseconds, Sparse: true, Traced: true,
			Help: "time in the handlers of interrupts that have a line, and of LOC RES CAL " +
				"IWI (tracepoints irq:irq_handler_*, irq_vectors:*), without softirqs",
			Fields: []measure.Field{
				irq,
				{Name: "cpu", Type: measure.Number, Help: "CPU number"},
				device,
				typ,
			}},
		{ID: "irq.time.cost", Kind: measure.Delta, Unit: measure.Nanoseconds, Traced: true,
			Help: "CPU time, on all CPUs, of the BPF programs that measure irq.time and " +
				"softirq.time while a query needs these too (run_time_ns of BPF programs, " +
				"without the kernel's call); included in those times"},
		{
			ID:     "softirq.time",
			Kind:   measure.Delta,
			Unit:   measure.Nanoseconds,
			Sparse: true,
			Traced: true,
			Help: "time in softirqs, without interrupts that came meanwhile (tracepoints " +
				"irq:softirq_*, net:netif_receive_skb, napi:napi_poll)",
			Fields: []measure.Field{
				{Name: "cpu", Type: measure.Number, Help: "CPU number"},
				{
					Name: "vector",
					Type: measure.Word,
					Help: "NET_RX NET_TX BLOCK TIMER SCHED RCU TASKLET HI ...",
				},
				{Name: "device", Type: measure.Word, Help: "of NET_RX: the network device that " +
					"received the packet, after its network namespace if that is another " +
					"(blue/eth0, or net:INODE/eth0 if it has no name); empty: all else"},
			},
		},
		{
			ID:   "irq.affinity",
			Kind: measure.Level,
			Unit: measure.Count,
			Fold: measure.Max,
			Help: "1 for each interrupt with a handler: the CPUs that may receive it (/proc/irq/N)",
			Fields: []measure.Field{
				irq,
				device,
				typ,
				{
					Name: "affinity",
					Type: measure.Word,
					Help: "CPUs that may receive it, as 0-3,8; empty if unreadable",
				},
				{Name: "effective", Type: measure.Word, Help: "CPUs that do receive it; empty " +
					"if the kernel does not show it"},
			},
		},
	}
}

// Open opens /proc/interrupts, and /proc/irq if affinities are wanted. An error means that nothing
// can be measured. The caller closes the Reading.
func (Interrupts) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &interruptsReading{lines: map[string]*irqLine{}, times: handlerTimes{root: env.Root}}
	var err error
	if r.file, err = proc.OpenProc(env.Root, "interrupts"); err != nil {
		return nil, err
	}
	if want.Stat("irq.affinity") {
		if r.dir, err = proc.OpenProcDir(env.Root, "irq"); err != nil {
			r.noDir = err.Error()
		}
	}
	return r, nil
}

type interruptsReading struct {
	file  *proc.File
	dir   *proc.Dir // nil if affinities are not wanted or noDir
	noDir string

	header  []byte    // the line that names the CPUs
	cpus    []int     // the CPU of each column
	fresh   []bool    // columns of CPUs that just came online
	sums    []float64 // of this interval, by column
	row     []uint32  // of the current line
	lines   map[string]*irqLine
	order   []*irqLine // as in the file
	round   uint32
	numbers collect.NumberLabels
	next    int // index in order: whose affinity is read next
	open    int // open affinity files
	buf     []byte
	times   handlerTimes
}

// irqLine is one line of /proc/interrupts.
type irqLine struct {
	name   string
	text   []byte   // what follows the name, unparsed
	counts []uint32 // by column; only one if the line counts for the whole machine
	tail   []byte   // what follows the counts
	round  uint32

	device, typ         string
	affinity, effective string
	affinityRead        bool
	paths               [2]string     // of the two affinity files
	files               [2]*proc.File // nil: opened at each reading
	epoch               int           // of labels; -1: none
	labels              [5]measure.Label
}

var errNoCPUs = errors.New("read /proc/interrupts: no line of CPUs at its start")

// parseCPUHeader parses the first line of /proc/interrupts or /proc/softirqs, "CPU0 CPU1 CPU4", and
// appends the numbers to dst. It returns false for anything else.
func parseCPUHeader(dst []int, line []byte) ([]int, bool) {
	c := proc.Scan(line)
	for {
		w := c.Word()
		if w == nil {
			return dst, len(dst) > 0
		}
		if len(w) < 4 || string(w[:3]) != "CPU" {
			return dst, false
		}
		n, err := proc.ParseUint(w[3:])
		if err != nil || n >= 1<<20 {
			return dst, false
		}
		dst = append(dst, int(n))
	}
}

// parseCounts parses up to len(dst) numbers at the start of line into dst, modulo 2^32. It returns
// how many there are and what follows them.
func parseCounts(dst []uint32, line []byte) (n int, tail []byte) {
	at := 0
	for n < len(dst) {
		i := at
		for i < len(line) && line[i] == ' ' {
			i++
		}
		start, v := i, uint32(0)
		for i < len(line) && line[i]-'0' <= 9 {
			v = v*10 + uint32(line[i]-'0')
			i++
		}
		if i == start || i < len(line) && line[i] != ' ' { // a chip may be called "8259A"
			break
		}
		dst[n] = v
		n++
		at = i
	}
	return n, line[at:]
}

// parseIRQTail splits what follows the counts of a numbered interrupt, which show_interrupts in
// kernel/irq/proc.c prints: the chip, which may contain spaces; the number at the chip, with
// "-edge" or similar; on some machines Edge or Level; the handlers, separated by commas. typ has
// single spaces.
//
//	"PCI-MSIX-0000:00:04.0   1-edge      virtio3-rx"     (x86)
//	"    GICv3  27 Level     arch_timer"                 (ARM)
//	" XT-PIC-XT-PIC    cascade"                          (no number)
func parseIRQTail(tail []byte) (typ, device string) {
	words := bytes.Fields(tail)
	end := -1 // how many words belong to the type
	for i := 1; i < len(words); i++ {
		digits := 0
		for digits < len(words[i]) && words[i][digits]-'0' <= 9 {
			digits++
		}
		if digits > 0 && (digits == len(words[i]) || words[i][digits] == '-') {
			end = i + 1
			break
		}
	}
	if end < 0 {
		// No number: the handlers follow the last wide gap.
		trimmed := bytes.TrimSpace(tail)
		if i := bytes.LastIndex(trimmed, []byte("  ")); i >= 0 {
			return string(bytes.Join(bytes.Fields(trimmed[:i]), []byte(" "))), string(trimmed[i+2:])
		}
		return string(trimmed), ""
	}
	trigger := func(w []byte) bool {
		return string(w) == "Edge" || string(w) == "Level" || w[0] == '-'
	}
	for end < len(words) && trigger(words[end]) {
		end++
	}
	return string(
			bytes.Join(words[:end], []byte(" ")),
		), string(
			bytes.Join(words[end:], []byte(" ")),
		)
}

func numbered(name string) bool { return len(name) > 0 && name[0]-'0' <= 9 }

func (r *interruptsReading) Read(out *collect.Out) error {
	b, err := r.file.Read()
	if err != nil {
		return err
	}
	if err := r.take(out, b); err != nil {
		return err
	}
	if t := out.Table("irq.affinity"); t != nil {
		r.putAffinity(out, t)
	}
	r.times.read(out, r)
	return nil
}

// take parses /proc/interrupts and puts the counts.
func (r *interruptsReading) take(out *collect.Out, b []byte) error {
	header, b := procfs.CutLine(b)
	if !bytes.Equal(header, r.header) || r.cpus == nil {
		if err := r.setCPUs(header, out); err != nil {
			return err
		}
	}
	clear(r.sums)
	r.round++
	r.order = r.order[:0]
	counts := out.Table("irq.count")
	for len(b) > 0 {
		var text []byte
		text, b = procfs.CutLine(b)
		colon := bytes.IndexByte(text, ':')
		if colon < 0 {
			continue
		}
		name := bytes.TrimLeft(text[:colon], " ")
		text = text[colon+1:]
		line := r.lines[string(name)]
		born := false
		if line == nil {
			line = &irqLine{name: string(name), epoch: -1}
			r.lines[line.name] = line
			born = true
		}
		line.round = r.round
		r.order = append(r.order, line)
		if !born && bytes.Equal(text, line.text) {
			continue
		}
		r.count(out, counts, line, text, born)
	}
	for name, line := range r.lines {
		if line.round != r.round {
			r.drop(line)
			delete(r.lines, name)
		}
	}
	if t := out.Table("cpu.interrupts"); t != nil {
		for i, cpu := range r.cpus {
			if !r.fresh[i] || out.First {
				t.Put(r.sums[i], r.numbers.Of(out, cpu))
			}
		}
	}
	clear(r.fresh)
	return nil
}

func (r *interruptsReading) Close() {
	for _, line := range r.lines {
		r.drop(line)
	}
	r.times.close()
	r.file.Close()
	r.dir.Close()
}

// setCPUs applies a changed header, when CPUs came or went. It keeps the counts of those that stay.
func (r *interruptsReading) setCPUs(header []byte, out *collect.Out) error {
	cpus, ok := parseCPUHeader(nil, header)
	if !ok {
		return errNoCPUs
	}
	column := map[int]int{}
	for i, c := range r.cpus {
		column[c] = i
	}
	fresh := make([]bool, len(cpus))
	for i, c := range cpus {
		_, had := column[c]
		fresh[i] = !had
	}
	for _, line := range r.lines {
		if len(line.counts) != len(r.cpus) || line.counts == nil {
			continue
		}
		now := make([]uint32, len(cpus))
		for i, c := range cpus {
			if old, had := column[c]; had {
				now[i] = line.counts[old]
			}
		}
		line.counts, line.text = now, line.text[:0]
	}
	r.header = append(r.header[:0], header...)
	r.cpus, r.fresh = cpus, fresh
	r.sums, r.row = make([]float64, len(cpus)), make([]uint32, len(cpus))
	return nil
}

// count parses a line that is new or has changed.
func (r *interruptsReading) count(
	out *collect.Out, table *collect.Table, line *irqLine, text []byte, born bool,
) {
	line.text = append(line.text[:0], text...)
	n, tail := parseCounts(r.row, text)
	if born || !bytes.Equal(tail, line.tail) {
		line.tail = append(line.tail[:0], tail...)
		line.affinityRead = false
		r.drop(line)
		line.describe()
	}
	if len(line.counts) != len(r.cpus) {
		line.counts = make([]uint32, len(r.cpus)) // all zero: an interrupt begins there
	}
	machine := line.machine(n, len(r.cpus))
	within := line.name == "TLB"
	for i, now := range r.row[:n] {
		last := line.counts[i]
		d := now - last
		if now < last && !(last > 3<<30 && now < 1<<30) {
			d = now // freed and set up again: counted from zero
		}
		line.counts[i] = now
		if d == 0 || out.First && !out.SinceBoot || r.fresh[i] && !out.First {
			continue
		}
		if !machine && !within {
			r.sums[i] += float64(d)
		}
		if table == nil {
			continue
		}
		cpu := out.Label("")
		if !machine {
			cpu = r.numbers.Of(out, r.cpus[i])
		}
		l := line.label(out)
		table.Put(float64(d), l[0], cpu, l[1], l[2])
	}
}

// machine reports whether the line counts for the whole machine: ERR and MIS on x86 and Err on ARM
// have one number.
func (l *irqLine) machine(counts, cpus int) bool {
	return counts == 1 && cpus > 1 || l.name == "ERR" || l.name == "MIS" || l.name == "Err"
}

// describe sets the device and type from what follows the counts.
func (l *irqLine) describe() {
	l.epoch = -1
	if numbered(l.name) {
		l.typ, l.device = parseIRQTail(l.tail)
	} else {
		l.typ, l.device = "", string(bytes.TrimSpace(l.tail))
	}
}

// label returns the labels of irq, device and type.
func (l *irqLine) label(out *collect.Out) []measure.Label {
	if l.epoch != out.Epoch {
		l.epoch = out.Epoch
		l.labels = [5]measure.Label{
			out.Label(l.name),
			out.Label(l.device),
			out.Label(l.typ),
			out.Label(l.affinity),
			out.Label(l.effective),
		}
	}
	return l.labels[:]
}

// affinities is how many interrupts' affinities are read again in one reading. Each has two files
// at 13 us, or one that is kept open. So a change shows after a few readings, or after some tens on
// a machine with hundreds of interrupts. A new interrupt's affinity is read at once.
const affinities = 8

// mostAffinityFiles is how many of them are kept open.
const mostAffinityFiles = 128

func (r *interruptsReading) putAffinity(out *collect.Out, table *collect.Table) {
	if r.dir == nil {
		table.Note(r.noDir)
		return
	}
	for range min(affinities, len(r.order)) {
		r.next = (r.next + 1) % len(r.order)
		r.readAffinity(r.order[r.next])
	}
	for _, line := range r.order {
		if !numbered(line.name) || line.device == "" {
			continue
		}
		if !line.affinityRead {
			r.readAffinity(line)
		}
		table.Put(1, line.label(out)...)
	}
}

// readAffinity reads which CPUs may and do receive the interrupt. A missing file reads as empty:
// the interrupt was freed, or the kernel does not keep it for this controller.
func (r *interruptsReading) readAffinity(line *irqLine) {
	line.affinityRead = true
	if !numbered(line.name) || line.device == "" {
		return
	}
	if line.paths[0] == "" {
		line.paths = [2]string{
			line.name + "/smp_affinity_list",
			line.name + "/effective_affinity_list",
		}
	}
	for i, to := range []*string{&line.affinity, &line.effective} {
		if now := bytes.TrimSpace(r.affinityFile(line, i)); string(now) != *to {
			*to, line.epoch = string(now), -1
		}
	}
}

// affinityFile returns the text of one of the two files, nothing if it is missing. To read a file
// that is kept open fails when its interrupt is freed.
func (r *interruptsReading) affinityFile(line *irqLine, i int) []byte {
	var err error
	if f := line.files[i]; f != nil {
		if r.buf, err = f.ReadOneInto(r.buf); err == nil {
			return r.buf
		}
		r.drop(line)
	}
	if r.open < mostAffinityFiles {
		f, err := r.dir.Open(line.paths[i])
		if err != nil {
			return nil
		}
		line.files[i] = f
		r.open++
		r.buf, err = f.ReadOneInto(r.buf)
		if err != nil {
			return nil
		}
		return r.buf
	}
	if r.buf, err = r.dir.ReadOne(line.paths[i], r.buf); err != nil {
		return nil
	}
	return r.buf
}

// drop closes the open files of an interrupt.
func (r *interruptsReading) drop(line *irqLine) {
	for i, f := range line.files {
		if f != nil {
			f.Close()
			line.files[i] = nil
			r.open--
		}
	}
}
