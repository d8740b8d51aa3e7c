package cases

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// imageName is the only file of the file system of actImage.
const imageName = "disk.img"

// actImage serves a file system in user space (FUSE) with one file of zeros, imageName, whose
// content it forgets. After a number of writes it leaves all further ones without an answer, as a
// storage server does that hangs.
func actImage(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	at := f.String("at", "", "where it is mounted: an empty directory")
	size := f.Uint64("size", 64<<20, "bytes of the file")
	most := f.Int64("most", 0, "writes that are answered; 0: all")
	slow := f.Duration("slow", 0, "how long an answer to a read takes")
	f.Parse(args)
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/fuse: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := unix.Mount("culab", *at, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount %s: %w", *at, err)
	}
	go func() {
		<-ctx.Done()
		unix.Unmount(*at, unix.MNT_DETACH)
		os.Exit(0) // the kernel then fails what waits for an answer
	}()
	t.ready()
	s := &imageServer{fd: fd, size: *size, most: *most, slow: *slow, t: t}
	b := make([]byte, 1<<20+4096)
	for {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT): // a request was interrupted
			continue
		case err != nil:
			return fmt.Errorf("read a request: %w", err)
		case n < fuseHeader:
			return fmt.Errorf("a request of %d bytes", n)
		}
		if err := s.answer(b[:n]); err != nil {
			return err
		}
	}
}

// The protocol of include/uapi/linux/fuse.h, version 7.31.
const (
	fuseHeader      = 40
	fuseLookup      = 1
	fuseForget      = 2
	fuseGetattr     = 3
	fuseOpen        = 14
	fuseRead        = 15
	fuseWrite       = 16
	fuseStatfs      = 17
	fuseRelease     = 18
	fuseFsync       = 20
	fuseFlush       = 25
	fuseInit        = 26
	fuseOpendir     = 27
	fuseReleasedir  = 29
	fuseInterrupt   = 36
	fuseDestroy     = 38
	fuseBatchForget = 42
	imageNode       = 2
)

// imageServer answers the requests of the kernel.
type imageServer struct {
	slow   time.Duration // of answers to reads
	fd     int
	size   uint64
	most   int64
	writes int64
	t      *tally
}

// answer answers one request: a header of 40 bytes (length, opcode, unique, node, ...) and its
// arguments.
func (s *imageServer) answer(request []byte) error {
	le := binary.LittleEndian
	op, node, in := le.Uint32(request[4:]), le.Uint64(request[16:]), request[fuseHeader:]
	unique := request[8:16]
	switch op {
	case fuseForget, fuseBatchForget, fuseInterrupt, fuseDestroy:
		return nil // without answers
	case fuseInit:
		out := make([]byte, 64)
		le.PutUint32(out, 7)
		le.PutUint32(out[4:], 31)
		le.PutUint32(out[8:], le.Uint32(in[8:])) // read-ahead
		le.PutUint32(out[12:], 1<<0|1<<5)        // FUSE_ASYNC_READ, FUSE_BIG_WRITES
		le.PutUint16(out[16:], 16)               // requests in the background
		le.PutUint16(out[18:], 12)
		le.PutUint32(out[20:], 128<<10) // bytes of a write
		return s.reply(unique, 0, out)
	case fuseLookup:
		if string(in) != imageName+"\x00" {
			return s.reply(unique, unix.ENOENT, nil)
		}
		out := make([]byte, 40, 128) // node, generation, and how long they are valid
		le.PutUint64(out, imageNode)
		le.PutUint64(out[16:], 3600)
		le.PutUint64(out[24:], 3600)
		return s.reply(unique, 0, append(out, s.attributes(imageNode)...))
	case fuseGetattr:
		out := make([]byte, 16, 104)
		le.PutUint64(out, 3600)
		return s.reply(unique, 0, append(out, s.attributes(node)...))
	case fuseOpen, fuseOpendir:
		return s.reply(unique, 0, make([]byte, 16))
	case fuseRead:
		at, want := le.Uint64(in[8:]), uint64(le.Uint32(in[16:]))
		data := make([]byte, min(want, s.size-min(at, s.size)))
		if s.slow > 0 {
			id := bytes.Clone(unique) // the request is overwritten by the next one
			time.AfterFunc(s.slow, func() {
				if s.reply(id, 0, data) == nil {
					s.t.done(int64(len(data)), 0)
				}
			})
			return nil
		}
		return s.reply(unique, 0, data)
	case fuseWrite:
		if s.writes++; s.most > 0 && s.writes > s.most {
			s.t.errors.Add(1)
			return nil // it hangs
		}
		n := le.Uint32(in[16:])
		s.t.done(int64(n), 0)
		out := make([]byte, 8)
		le.PutUint32(out, n)
		return s.reply(unique, 0, out)
	case fuseStatfs:
		out := make([]byte, 80)
		le.PutUint32(out[40:], 4096) // bytes of a block
		le.PutUint32(out[44:], 255)  // of a name
		return s.reply(unique, 0, out)
	case fuseRelease, fuseReleasedir, fuseFlush, fuseFsync:
		return s.reply(unique, 0, nil)
	}
	return s.reply(unique, unix.ENOSYS, nil)
}

// attributes returns a struct fuse_attr of 88 bytes: of the directory, or of the file.
func (s *imageServer) attributes(node uint64) []byte {
	le := binary.LittleEndian
	b := make([]byte, 88)
	le.PutUint64(b, node)
	mode, size := uint32(unix.S_IFDIR|0o755), uint64(0)
	if node == imageNode {
		mode, size = unix.S_IFREG|0o600, s.size
	}
	le.PutUint64(b[8:], size)
	le.PutUint64(b[16:], size/512)
	le.PutUint64(b[24:], uint64(time.Now().Unix()))
	le.PutUint32(b[60:], mode)
	le.PutUint32(b[64:], 1)
	le.PutUint32(b[80:], 4096)
	return b
}

// reply writes an answer: its length, the error, the number of the request, and its values.
func (s *imageServer) reply(unique []byte, failed unix.Errno, out []byte) error {
	b := make([]byte, 16, 16+len(out))
	binary.LittleEndian.PutUint32(b, uint32(16+len(out)))
	binary.LittleEndian.PutUint32(b[4:], uint32(-int32(failed)))
	copy(b[8:], unique)
	if _, err := unix.Write(s.fd, append(b, out...)); err != nil &&
		!errors.Is(err, unix.ENOENT) { // the request was interrupted
		return fmt.Errorf("answer a request: %w", err)
	}
	return nil
}

// actFetch reads a file from its begin to its end with some threads, each a part of it, through the
// page cache.
func actFetch(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	name := f.String("file", "", "file")
	threads := f.Int("threads", 2, "readers")
	rate := f.Float64("rate", 0, "bytes a second; 0: as fast as it goes")
	f.Parse(args)
	fd, err := unix.Open(*name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", *name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	part, p := st.Size/int64(*threads), &pace{rate: *rate}
	for n := range *threads {
		go func() {
			b := make([]byte, 16<<10)
			for at := int64(0); p.wait(ctx, float64(len(b))) == nil; at += int64(len(b)) {
				if at >= part {
					unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
					at = 0
				}
				start := time.Now()
				got, err := unix.Pread(fd, b, int64(n)*part+at)
				if err != nil {
					t.errors.Add(1)
				}
				t.done(int64(got), time.Since(start))
			}
		}()
	}
	t.ready()
	<-ctx.Done()
	os.Exit(0) // a thread may wait for an answer that never comes
	return nil
}
