package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"culprit/measure"
	"culprit/profile"
	"culprit/view"
	"culprit/view/web/api"
)

// Limits of the cache.
const (
	maxProfiles     = 24
	maxProfileBytes = 32 << 20 // of all profiles, compressed
	maxColumns      = 1 << 28  // bytes of one before compression
)

// storedProfile is a profile in the columns format.
type storedProfile struct {
	id   string // a hash of its contents
	name string // of the file, or how the CPUs were sampled
	kind string // file or sample
	at   measure.Time
	over measure.Interval // when it was sampled; zero: unknown
	packedProfile
}

// packedProfile is what is kept of a profile.
type packedProfile struct {
	columns     []byte // compressed by gzip
	columnsSize int    // bytes before compression
	sketch      []byte // columns of the calls that a first picture shows; nil: small profile
	sketchSize  int
	unit        string
	notes       []string
	amount      float64
	samples     float64 // 0: unknown
	seconds     float64 // of CPU time; 0: unknown
	calls       int
	functions   int
	depth       int
}

// size returns the bytes of memory of a profile.
func (p *storedProfile) size() int { return len(p.columns) + len(p.sketch) }

// tree decodes the profile.
func (p *storedProfile) tree() (*profile.Tree, error) {
	b, err := gunzip(p.columns, p.columnsSize)
	if err != nil {
		return nil, err
	}
	return profile.ParseColumns(b)
}

func (p *storedProfile) appendJSON(b []byte) []byte {
	b = view.AppendString(append(b, `{"id":`...), p.id)
	b = view.AppendString(append(b, `,"name":`...), p.name)
	b = view.AppendString(append(b, `,"kind":`...), p.kind)
	b = api.AppendMillis(append(b, `,"at_ms":`...), int64(p.at))
	if p.over.Span() > 0 {
		b = api.AppendMillis(append(b, `,"from_ms":`...), int64(p.over.Start))
		b = api.AppendMillis(append(b, `,"to_ms":`...), int64(p.over.End))
	}
	b = view.AppendString(append(b, `,"unit":`...), p.unit)
	b = view.AppendNumber(append(b, `,"amount":`...), p.amount)
	orNull := func(v float64) float64 {
		if v <= 0 {
			return measure.NaN
		}
		return v
	}
	b = view.AppendNumber(append(b, `,"samples":`...), orNull(p.samples))
	b = view.AppendNumber(append(b, `,"cpu_seconds":`...), orNull(p.seconds))
	b = strconv.AppendInt(append(b, `,"nodes":`...), int64(p.calls), 10)
	b = strconv.AppendInt(append(b, `,"functions":`...), int64(p.functions), 10)
	b = strconv.AppendInt(append(b, `,"depth":`...), int64(p.depth), 10)
	b = appendStrings(append(b, `,"notes":`...), p.notes)
	return append(b, '}')
}

// profileCache keeps the newest profiles in memory.
type profileCache struct {
	mu  sync.Mutex       // guards all
	all []*storedProfile // newest last
}

// put adds a profile as the newest and evicts the oldest beyond the limits. A profile with the same
// ID is replaced.
func (c *profileCache) put(p *storedProfile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := func(q *storedProfile) bool { return q.id == p.id }
	c.all = append(slices.DeleteFunc(c.all, same), p)
	bytes := 0
	for _, q := range c.all {
		bytes += q.size()
	}
	for len(c.all) > 1 && (len(c.all) > maxProfiles || bytes > maxProfileBytes) {
		bytes -= c.all[0].size()
		c.all = slices.Delete(c.all, 0, 1)
	}
}

// list returns the profiles, newest first.
func (c *profileCache) list() []*storedProfile {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.all)
	slices.Reverse(all)
	return all
}

// get returns the profile with an ID. The error says that it is not in the cache.
func (c *profileCache) get(id string) (*storedProfile, error) {
	for _, p := range c.list() {
		if p.id == id {
			return p, nil
		}
	}
	return nil, notFound("profile "+printable(id)+" is no longer available",
		"the server keeps only the newest ones in memory: open the file again, or sample again")
}

// keep adds a profile to the cache. The error is that of packTree.
func (s *profiles) keep(t *profile.Tree, name, kind string) (*storedProfile, error) {
	p, err := packTree(t)
	if err != nil {
		return nil, err
	}
	over := measure.Interval{Start: t.Taken.At, End: t.Taken.At.Add(t.Taken.Over)}
	return s.add(p, name, kind, over)
}

// add adds a packed profile of a time to the cache. The error says that it is not what it should
// be.
func (s *profiles) add(
	packed *packedProfile, name, kind string, over measure.Interval,
) (*storedProfile, error) {
	id, err := packed.id()
	if err != nil {
		return nil, err
	}
	p := &storedProfile{
		id: id, name: name, kind: kind, at: s.now(), over: over, packedProfile: *packed,
	}
	s.cache.put(p)
	return p, nil
}

// id returns the hash of the columns. The error says that they are not columnsSize bytes long.
func (p *packedProfile) id() (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(p.columns))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(z, int64(p.columnsSize)+1))
	if err == nil && n != int64(p.columnsSize) {
		err = fmt.Errorf("a profile of %d bytes, not %d", n, p.columnsSize)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), err
}

// packTree packs a profile. The error says that it is too large, or is one of encoding.
func packTree(t *profile.Tree) (*packedProfile, error) {
	if t.Len() > maxCalls {
		return nil, profileTooLarge("the profile has %d calls, more than %d", t.Len(), maxCalls)
	}
	columns, err := profile.AppendColumns(nil, t)
	if err != nil {
		return nil, err
	}
	if len(columns) > maxColumns {
		return nil, profileTooLarge("the profile takes more than %d MB", maxColumns>>20)
	}
	p := &packedProfile{
		unit: t.Unit, notes: t.Notes, amount: t.Sum(), samples: t.Samples, seconds: t.Seconds,
		calls: t.Len(), functions: len(t.Functions) - 1, depth: t.Depth,
		columnsSize: len(columns),
	}
	if p.columns, err = pack(columns); err != nil {
		return nil, err
	}
	sketch, any, err := profile.AppendOverview(nil, t)
	if err == nil && any {
		p.sketchSize = len(sketch)
		p.sketch, err = pack(sketch)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// pack compresses b by gzip, into memory of exactly the needed size.
func pack(b []byte) ([]byte, error) {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(packed.Bytes()), nil
}

// gunzip returns b uncompressed, which has size bytes.
func gunzip(b []byte, size int) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	out := make([]byte, size)
	_, err = io.ReadFull(z, out)
	return out, err
}
