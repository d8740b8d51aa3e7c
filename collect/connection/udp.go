package connection

import (
	"culprit/collect"
	"culprit/kernel/proc"
	"culprit/measure"
)

// UDP is udpDrops and nameServers, which read the same files: it reads them once.
type UDP struct{}

// Stats returns the statistics of both.
func (UDP) Stats() []measure.Stat { return append(udpDrops{}.Stats(), nameServers{}.Stats()...) }

// Open opens the wanted ones. An error means that none can be measured. The caller closes the
// Reading.
func (UDP) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	texts := &udpTexts{of: map[udpFile]udpContent{}}
	r := &udpBoth{texts: texts}
	for _, c := range [...]collect.Collector{udpDrops{texts}, nameServers{texts}} {
		var ids []measure.StatID
		for _, s := range c.Stats() {
			ids = append(ids, s.ID)
		}
		if !want.Stat(ids...) {
			continue
		}
		reading, err := c.Open(env, want)
		if err != nil {
			r.Close()
			return nil, err
		}
		r.readings, r.ids = append(r.readings, reading), append(r.ids, ids)
	}
	return r, nil
}

// udpBoth is the Reading of UDP.
type udpBoth struct {
	readings []collect.Reading
	ids      [][]measure.StatID // of readings
	texts    *udpTexts
}

// Close implements collect.Reading.
func (r *udpBoth) Close() {
	for _, one := range r.readings {
		one.Close()
	}
}

// Read implements collect.Reading.
func (r *udpBoth) Read(out *collect.Out) error {
	clear(r.texts.of)
	var first error
	failed := 0
	for i, one := range r.readings {
		if err := one.Read(out); err != nil {
			for _, id := range r.ids[i] {
				out.Table(id).Unmeasured(err.Error())
			}
			first = err
			failed++
		}
	}
	if failed < len(r.readings) {
		return nil
	}
	return first
}

// udpTexts are the files that were read in this reading. nil reads each time.
type udpTexts struct{ of map[udpFile]udpContent }

// udpFile is a file of a network namespace, of IPv4 or IPv6.
type udpFile struct {
	namespace uint64
	family    int
}

type udpContent struct {
	b   []byte // valid until the next reading
	err error
}

// read reads a file, unless it was read in this reading.
func (t *udpTexts) read(of udpFile, f *proc.File) ([]byte, error) {
	if t == nil {
		return f.Read()
	}
	text, ok := t.of[of]
	if !ok {
		text.b, text.err = f.Read()
		t.of[of] = text
	}
	return text.b, text.err
}
