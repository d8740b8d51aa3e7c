package web

import (
	"context"
	"errors"
	"io"
	"net/http"

	"culprit/measure"
	"culprit/profile"
	"culprit/wire"
	"culprit/worker"
)

// A file of a stranger can take any time and memory to read. With Config.Workers that happens in a
// process of its own, which gets the file in parts and returns the profile packed.

// ProfileJob is the name of the job of a worker that NewProfileJob returns.
const ProfileJob = "profile"

const (
	// jobGrowth is how many bytes a profile may take while a worker reads it: what is left of its
	// memory is for the columns and for garbage.
	jobGrowth = 112 << 20
	// filePart is the size in bytes of a part of a file.
	filePart = 256 << 10
	// maxPackedProfile is the size in bytes of the reply of a worker.
	maxPackedProfile = 64 << 20
)

// The first byte of a reply.
const (
	replyFault byte = iota
	replyProfile
)

// NewProfileJob returns the handler of ProfileJob. A profile may take growth bytes while it is
// read; 0: what fits a worker.
func NewProfileJob(growth int64) worker.Job {
	if growth == 0 {
		growth = jobGrowth
	}
	return func(ctx context.Context, _ []byte, ask worker.Ask, reply io.Writer) error {
		p, err := readProfile(ctx, &askedFile{ask: ask}, growth)
		if err != nil {
			_, err = reply.Write(faultOf(err).append([]byte{replyFault}))
			return err
		}
		_, err = reply.Write(p.append([]byte{replyProfile}))
		return err
	}
}

// readProfile reads a profile and packs it. The error is a *fault, or the context's.
func readProfile(ctx context.Context, in io.Reader, growth int64) (*packedProfile, error) {
	t, err := profile.Read(
		ctx, in, "", profile.Options{Memory: growth, Unpacked: maxUnpacked, Times: true},
	)
	if err != nil {
		return nil, unreadable(err)
	}
	return packTree(t)
}

// askedFile reads a file of which the server has the parts.
type askedFile struct {
	ask      worker.Ask
	question []byte
	part     []byte
	err      error
}

// Read implements io.Reader.
func (f *askedFile) Read(b []byte) (int, error) {
	if len(f.part) == 0 && f.err == nil {
		if f.part, f.err = f.ask(f.question); f.err == nil && len(f.part) == 0 {
			f.err = io.EOF
		}
	}
	if len(f.part) == 0 {
		return 0, f.err
	}
	n := copy(b, f.part)
	f.part = f.part[n:]
	return n, nil
}

// readUploaded reads the profile in the body of a request, in a worker if there are any. The error
// is a *fault, or the context's.
func (s *profiles) readUploaded(ctx context.Context, r *http.Request) (*packedProfile, error) {
	if s.Workers == nil {
		return readProfile(ctx, r.Body, maxGrowth)
	}
	var broken error // of the body
	part := make([]byte, filePart)
	got, err := s.work(ctx, ProfileJob, nil, func([]byte) ([]byte, error) {
		n, err := io.ReadAtLeast(r.Body, part, 1)
		if err != nil && !errors.Is(err, io.EOF) {
			broken = err
			return nil, err
		}
		return part[:n], nil
	})
	if broken != nil {
		return nil, unreadable(broken)
	}
	if err != nil {
		return nil, err
	}
	p, err := decodeReply(got)
	if errors.Is(err, wire.ErrInvalid) {
		return nil, busy(worker.ErrEnded.Error()+": "+err.Error(), "repeat it in a moment")
	}
	return p, err
}

// work runs a job of a worker and returns its reply. The error is a *fault, a bug of culprit, or
// the context's.
func (s *profiles) work(
	ctx context.Context, job string, content []byte, ask func([]byte) ([]byte, error),
) (got []byte, err error) {
	err = s.Workers.Do(ctx, &worker.Request{
		Job: job, Content: content,
		Ask: func(_ context.Context, question []byte) ([]byte, error) { return ask(question) },
		Reply: func(b []byte) error {
			if len(got)+len(b) > maxPackedProfile {
				return profileTooLarge("the reply takes more than %d MB", maxPackedProfile>>20)
			}
			got = append(got, b...)
			return nil
		},
	})
	var f *fault
	switch {
	case errors.Is(err, worker.ErrEnded):
		return nil, busy(err.Error(), "culprit flame reads profiles of any size")
	case err != nil && ctx.Err() == nil && !errors.As(err, &f) && !isBug(err):
		return nil, busy(err.Error(), "repeat it in a moment")
	}
	return got, err
}

// isBug reports whether an error is a fault of culprit.
func isBug(err error) bool {
	var bug *measure.Fault
	return errors.As(err, &bug)
}

// decodeReply decodes the reply of a worker. The error is a *fault that it replied, or
// wire.ErrInvalid.
func decodeReply(b []byte) (*packedProfile, error) {
	d := &wire.Decoder{Rest: b}
	switch kind := d.Byte(); kind {
	case replyFault:
		f := &fault{status: int(d.ID())}
		f.Code, f.Message, f.Hint = d.String(), d.String(), d.String()
		if f.status < 400 || f.status > 599 {
			d.Fail("an error of status %d", f.status)
		}
		if err := d.End(); err != nil {
			return nil, err
		}
		return nil, f
	case replyProfile:
		p := readPacked(d)
		return p, d.End()
	default:
		d.Fail("a reply of kind %d", kind)
		return nil, d.End()
	}
}

// append appends what a worker replies of an error.
func (f *fault) append(b []byte) []byte {
	b = wire.AppendString(wire.AppendUint(b, uint64(f.status)), f.Code)
	return wire.AppendString(wire.AppendString(b, f.Message), f.Hint)
}

// append appends what a worker replies of a profile.
func (p *packedProfile) append(b []byte) []byte {
	b = wire.AppendStrings(wire.AppendString(b, p.unit), p.notes)
	for _, v := range []float64{p.amount, p.samples, p.seconds} {
		b = wire.AppendFloat(b, v)
	}
	for _, n := range []int{p.calls, p.functions, p.depth, p.columnsSize, p.sketchSize} {
		b = wire.AppendUint(b, uint64(n))
	}
	return wire.AppendString(wire.AppendString(b, string(p.columns)), string(p.sketch))
}

// readPacked reads what packedProfile.append has written.
func readPacked(d *wire.Decoder) *packedProfile {
	p := &packedProfile{unit: d.String(), notes: d.Strings()}
	for _, v := range []*float64{&p.amount, &p.samples, &p.seconds} {
		*v = d.Float()
	}
	for _, n := range []*int{&p.calls, &p.functions, &p.depth, &p.columnsSize, &p.sketchSize} {
		*n = int(d.ID())
	}
	p.columns, p.sketch = []byte(d.String()), []byte(d.String())
	if len(p.sketch) == 0 {
		p.sketch = nil
	}
	if p.calls > maxCalls || p.columnsSize > maxColumns || p.sketchSize > maxColumns {
		d.Fail("%d calls in %d and %d bytes", p.calls, p.columnsSize, p.sketchSize)
	}
	return p
}
