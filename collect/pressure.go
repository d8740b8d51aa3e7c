package collect

import (
	"errors"
	"io/fs"

	"culprit/kernel"
	"culprit/measure"
)

// Pressure reads /proc/pressure (PSI): for how long some, or all, of the threads that had work to do were held up by the lack
// of a resource. See Documentation/accounting/psi.rst.
type Pressure struct{}

func pressureFields() []measure.Field {
	return []measure.Field{{Name: "resource", Type: measure.Word, Help: "cpu memory io irq"},
		{Name: "scope", Type: measure.Word, Help: "some: at least one thread was held up; full: all were, so nothing was done"}}
}

// Stats lists pressure.time.
func (Pressure) Stats() []measure.Stat {
	return []measure.Stat{{ID: "pressure.time", Kind: measure.Delta, Unit: measure.Nanoseconds, Fold: measure.Max, Help: "time in which threads were held up for want of a resource (/proc/pressure)",
		Fields: pressureFields()}}
}

// pressureResources are the files of /proc/pressure. irq exists since 6.1 and only where the time of interrupts is measured.
func pressureResources() []string { return []string{"cpu", "memory", "io", "irq"} }

const noPSI = "this kernel has no pressure stall information: built without CONFIG_PSI, or switched off at boot (psi=1 turns it on)"

// Open opens what there is in /proc/pressure.
func (Pressure) Open(env *Env, want Want) (Reading, error) {
	r := &pressureReading{}
	for _, name := range pressureResources() {
		f, err := env.Root.OpenProc("pressure/" + name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, measure.ErrUnsupported) {
			continue
		}
		if err != nil {
			r.Close()
			return nil, err
		}
		r.files = append(r.files, pressureFile{name: name, file: f})
	}
	if len(r.files) == 0 {
		return nil, &missing{noPSI}
	}
	return r, nil
}

type pressureReading struct {
	files []pressureFile
	last  Counters[string]
}

type pressureFile struct {
	name string
	file *kernel.File
}

// parsePressure reads a pressure file: for each of some and full the microseconds since boot, and whether the file has the
// line. cpu has no full line before 5.13, irq has no some.
//
//	some avg10=1.69 avg60=8.16 avg300=4.54 total=37881616
//	full avg10=0.00 avg60=0.00 avg300=0.00 total=0
func parsePressure(b []byte) (some, full uint64, hasSome, hasFull bool) {
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		c := kernel.Scan(line)
		scope := c.Word()
		for w := c.Word(); w != nil; w = c.Word() {
			if len(w) <= 6 || string(w[:6]) != "total=" {
				continue
			}
			v, err := kernel.ParseUint(w[6:])
			if err != nil {
				continue
			}
			switch string(scope) {
			case "some":
				some, hasSome = v, true
			case "full":
				full, hasFull = v, true
			}
		}
	}
	return
}

func (r *pressureReading) Read(out *Out) error {
	t := out.Table("pressure.time")
	read := false
	for i := range r.files {
		f := &r.files[i]
		b, err := f.file.ReadOne()
		if errors.Is(err, measure.ErrUnsupported) {
			continue // there, but switched off: EOPNOTSUPP
		}
		if err != nil {
			t.Note("read " + f.file.Path() + ": " + err.Error())
			continue
		}
		some, full, hasSome, hasFull := parsePressure(b)
		read = true
		d, ok := r.last.Diff(out, f.name, false, some, full)
		if !ok {
			continue
		}
		if hasSome {
			t.Row(d[0]*1e3, f.name, "some")
		}
		if hasFull {
			t.Row(d[1]*1e3, f.name, "full")
		}
	}
	if !read {
		return &missing{noPSI}
	}
	return nil
}

func (r *pressureReading) Close() {
	for _, f := range r.files {
		f.file.Close()
	}
}
