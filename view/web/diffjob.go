package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strconv"

	"culprit/profile"
	"culprit/wire"
	"culprit/worker"
)

// Two profiles of two million calls each take half a gigabyte to compare. With Config.Workers a
// worker does it: it gets both packed, in parts, and returns the comparison packed.

// DiffJob is the name of the job of a worker that NewDiffJob returns.
const DiffJob = "diff"

// The first byte of what a DiffJob asks.
const (
	askBefore = 'b'
	askAfter  = 'a'
)

// comparison says how to compare two profiles.
type comparison struct {
	norm    profile.Norm
	changes bool // a list of functions as JSON; else columns
	top     int  // of the list; 0: all
}

func (c *comparison) append(b []byte) []byte {
	b = wire.AppendFloat(wire.AppendString(b, c.norm.Per), c.norm.Before)
	b = wire.AppendBool(wire.AppendFloat(b, c.norm.After), c.changes)
	return wire.AppendUint(b, uint64(c.top))
}

func readComparison(b []byte) (comparison, error) {
	d := wire.Decoder{Rest: b}
	c := comparison{norm: profile.Norm{Per: d.String(), Before: d.Float(), After: d.Float()}}
	c.changes, c.top = d.Bool(), int(d.ID())
	return c, d.End()
}

// NewDiffJob returns the handler of DiffJob.
func NewDiffJob() worker.Job {
	return func(_ context.Context, request []byte, ask worker.Ask, reply io.Writer) error {
		size, packed, err := compareAsked(request, ask)
		if err != nil {
			_, err = reply.Write(faultOf(err).append([]byte{replyFault}))
			return err
		}
		b := wire.AppendUint([]byte{replyProfile}, uint64(size))
		_, err = reply.Write(append(b, packed...))
		return err
	}
}

// compareAsked compares the profiles that the server has, and returns the size of the reply in
// bytes and the reply packed.
func compareAsked(request []byte, ask worker.Ask) (size int, packed []byte, err error) {
	c, err := readComparison(request)
	if err != nil {
		return 0, nil, err
	}
	var trees [2]*profile.Tree
	for i, side := range []byte{askBefore, askAfter} {
		z, err := gzip.NewReader(&askedFile{ask: ask, question: []byte{side}})
		if err != nil {
			return 0, nil, err
		}
		columns, err := io.ReadAll(io.LimitReader(z, maxColumns))
		if err != nil {
			return 0, nil, err
		}
		if trees[i], err = profile.ParseColumns(columns); err != nil {
			return 0, nil, err
		}
	}
	d, err := compareTrees(trees[0], trees[1], c.norm)
	if err != nil {
		return 0, nil, err
	}
	b, err := c.appendTo(nil, d)
	if err != nil {
		return 0, nil, err
	}
	packed, err = pack(b)
	return len(b), packed, err
}

// appendTo appends what a client gets of a comparison.
func (c *comparison) appendTo(b []byte, d *profile.Diff) ([]byte, error) {
	if !c.changes {
		return profile.AppendDiffColumns(b, d)
	}
	out := bytes.NewBuffer(b)
	err := profile.WriteChangesJSON(out, d, c.top)
	return out.Bytes(), err
}

// packedColumns returns the columns of the profile with an ID, packed: of a cached one, or of
// samples that were recorded in a time range.
func (s *profiles) packedColumns(ctx context.Context, id string) ([]byte, error) {
	if _, _, ok := parseRange(id); !ok {
		p, err := s.cache.get(id)
		if err != nil {
			return nil, err
		}
		return p.columns, nil
	}
	t, err := s.tree(ctx, id)
	if err != nil {
		return nil, err
	}
	columns, err := profile.AppendColumns(nil, t)
	if err != nil {
		return nil, err
	}
	return pack(columns)
}

// sendCompared lets a worker compare two profiles, and replies.
func (s *profiles) sendCompared(
	ctx context.Context, w http.ResponseWriter, r *http.Request, p *parameters, c *comparison,
) error {
	sides := map[byte][]byte{}
	for side, name := range map[byte]string{askBefore: "before", askAfter: "after"} {
		var err error
		if sides[side], err = s.packedColumns(ctx, p.text(name)); err != nil {
			return err
		}
	}
	got, err := s.work(ctx, DiffJob, c.append(nil), func(question []byte) ([]byte, error) {
		if len(question) != 1 {
			return nil, wire.Invalid("a question of %d bytes", len(question))
		}
		left := sides[question[0]]
		part := left[:min(len(left), filePart)]
		sides[question[0]] = left[len(part):]
		return part, nil
	})
	if err != nil {
		return err
	}
	d := &wire.Decoder{Rest: got}
	if d.Byte() != replyProfile {
		_, err := decodeReply(got)
		return err
	}
	size := int(d.ID())
	if d.Err != nil {
		return busy(worker.ErrEnded.Error(), "repeat it in a moment")
	}
	kind := profile.ColumnsType
	if c.changes {
		kind = "application/json"
	}
	return sendPacked(w, r, kind, d.Rest, size)
}

// sendPacked replies with size bytes that are packed by gzip.
func sendPacked(
	w http.ResponseWriter, r *http.Request, kind string, packed []byte, size int,
) error {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept, Accept-Encoding")
	if accepts(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(packed)))
		_, _ = w.Write(packed) // fails only if the client is gone
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		h.Del("Content-Type")
		return busy(worker.ErrEnded.Error(), "repeat it in a moment")
	}
	h.Set("Content-Length", strconv.Itoa(size))
	_, _ = io.Copy(w, io.LimitReader(z, int64(size))) // fails only if the client is gone
	return nil
}
