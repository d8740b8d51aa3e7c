package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"culprit/supervise"
	"culprit/view/term"

	"golang.org/x/sys/unix"
)

const (
	// certificatePoll is how often the files of the certificate are looked at.
	certificatePoll = 5 * time.Second
	// maxCertificate limits the files of the certificate and its key together, in bytes.
	maxCertificate = 1 << 20
	// certificateFile is the index of the certificate in the files of the server.
	certificateFile = 3
)

// certificates holds the certificate that a server uses. It is safe for concurrent use.
type certificates struct {
	mu      sync.Mutex // guards the fields below
	current *tls.Certificate
	trouble string // why a newer one is not used; "": there is none
}

// get returns the certificate: tls.Config.GetCertificate.
func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, nil
}

// names returns the DNS names of the certificate in lower case.
func (c *certificates) names() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range c.current.Leaf.DNSNames {
		all = append(all, strings.ToLower(name))
	}
	return all
}

// problem returns why a newer certificate is not used; nil: there is none.
func (c *certificates) problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trouble == "" {
		return nil
	}
	return errors.New(c.trouble)
}

// replace uses another certificate: the text of its file and that of its key. The error says what
// is wrong with them.
func (c *certificates) replace(text []byte) error {
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.trouble = &pair, ""
	return nil
}

// replaceBy uses the certificate in a file. It leaves the position of the file, which other
// processes share.
func (c *certificates) replaceBy(f *os.File) error {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxCertificate))
	if err != nil {
		return err
	}
	return c.replace(text)
}

// received uses a certificate of the supervisor, or notes why there is none.
func (c *certificates) received(f *os.File, trouble string) {
	if f == nil {
		c.changed(nil, errors.New(trouble))
		return
	}
	err := c.replaceBy(f)
	_ = f.Close() // it was read
	if err != nil {
		c.changed(nil, err)
	}
}

// changed uses another certificate, or notes the error and keeps the old one.
func (c *certificates) changed(text []byte, err error) {
	if err == nil {
		err = c.replace(text)
	}
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = err.Error()
}

// readCertificate returns the text of the certificate of o and that of its key; nil: there is no
// certificate. The error says why the two can't be read, or what is wrong with them.
func readCertificate(o term.Serving) ([]byte, error) {
	if o.Cert == "" {
		return nil, nil
	}
	var text []byte
	for _, path := range []string{o.Cert, o.Key} {
		b, err := readAtMost(path, maxCertificate/2)
		if err != nil {
			return nil, certificateError(o, err)
		}
		text = append(append(text, b...), '\n')
	}
	if _, err := tls.X509KeyPair(text, text); err != nil {
		return nil, certificateError(o, err)
	}
	return text, nil
}

func certificateError(o term.Serving, err error) error {
	return fmt.Errorf("read --tls-cert %s and --tls-key %s: %w", o.Cert, o.Key, err)
}

// readAtMost returns a file of at most limit bytes. A FIFO without a writer is empty.
func readAtMost(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return b, err
}

// watchCertificate calls changed when a file of the certificate changes, and looks at once on a
// hangup: with the new text, or with the error that keeps the old certificate in use. It returns
// when ctx ends.
func watchCertificate(
	ctx context.Context, o term.Serving, console *term.Teller, hangup <-chan os.Signal,
	changed func(text []byte, err error),
) {
	poll := time.NewTicker(certificatePoll)
	defer poll.Stop()
	used, err := readCertificate(o)
	failed := err != nil
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
		case <-poll.C:
		}
		text, err := readCertificate(o)
		switch {
		case err != nil:
			err = fmt.Errorf("%w: the old certificate stays in use", err)
			if !failed {
				console.Say("culprit: " + err.Error())
			}
			changed(nil, err) // again: the server may have been started again
		case err == nil && (failed || !bytes.Equal(text, used)):
			used = text
			changed(text, nil)
			console.Say("culprit: the certificate was read again")
		}
		failed = err != nil
	}
}

// passCertificates passes each new certificate on to the server, which may not be able to read it.
func passCertificates(
	ctx context.Context, o term.Serving, console *term.Teller, hangup <-chan os.Signal,
	s *supervise.Supervisor,
) {
	watchCertificate(ctx, o, console, hangup, func(text []byte, err error) {
		var file *os.File
		if err == nil {
			file, err = memoryFile("certificate", text)
		}
		if err != nil {
			s.Replace(certificateFile, nil, err.Error())
			return
		}
		s.Replace(certificateFile, file, "")
	})
}

// memoryFile returns a file that is in memory only: memfd_create(2). The caller must close it.
func memoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
