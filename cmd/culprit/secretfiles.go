package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"time"

	"culprit/engine"
	"culprit/export/receiver"
	"culprit/view/term"
)

const (
	// secretPoll is how often the files of secrets are looked at. A change takes effect when it is
	// the same at two looks: a file may be half written.
	secretPoll = 5 * time.Second
	// secretPause is the least time between two renewals of the server for changed secrets.
	secretPause = time.Minute
	// maxSecretBytes limits what is read of a file.
	maxSecretBytes = 4 << 20
)

// secretFiles returns the files with secrets and certificates of receivers and of the engine.
func secretFiles(o term.Serving) (all []string) {
	for i := range o.Targets {
		all = append(all, o.Targets[i].Files()...)
	}
	for _, address := range o.Export.Addresses() {
		all = append(all, receiver.Files(address)...)
	}
	if e, err := engine.ParseOptions(o.Engine.URL, o.Engine.Options); err == nil {
		all = append(all, e.Files()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// openSecrets reads the files of secrets and certificates as a server does. The error says what is
// wrong with them.
func openSecrets(o term.Serving) error {
	if _, err := openServedFleet(o); err != nil {
		return err
	}
	if _, err := openReceivers(o.Targets); err != nil {
		return err
	}
	_, err := newNotifier(o)
	return err
}

// secretWatch renews the server when its files of secrets change: it has dropped the right to read
// them. Make it with newSecretWatch before the server starts.
type secretWatch struct {
	o       term.Serving
	passed  []byte // configuration of the server, as JSON
	used    string // digest of the files when the server was started
	seen    string // digest at the last look
	trouble string // why a change is not used; "": there is none
	renewed time.Time
}

// newSecretWatch returns the watch of the files of a server.
func newSecretWatch(o term.Serving) *secretWatch {
	w := &secretWatch{}
	w.configured(o, o.Config.Passed)
	return w
}

// configured takes another configuration, with which the server is started.
func (w *secretWatch) configured(o term.Serving, passed []byte) {
	w.o, w.passed = o, passed
	w.used, _ = digestOf(secretFiles(o)) // an error is reported by look
	w.seen = w.used
}

// digestOf returns a digest of the contents of files. The error is of reading one.
func digestOf(files []string) (string, error) {
	h := sha256.New()
	for _, path := range files {
		b, err := readAtMost(path, maxSecretBytes)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %d\n", path, len(b)) //nolint:errcheck // a hash never fails
		h.Write(b)                              //nolint:errcheck // as above
	}
	return string(h.Sum(nil)), nil
}

// lookNow is look on a request of the user, which waits for nothing.
func (w *secretWatch) lookNow(now time.Time, renew func(index int, file *os.File)) string {
	w.seen, _ = digestOf(secretFiles(w.o)) // an error is reported by look
	w.trouble, w.renewed = "", time.Time{}
	return w.look(now, renew)
}

// look renews the server if files of secrets have changed. It returns the line to print, "" for
// none.
func (w *secretWatch) look(now time.Time, renew func(index int, file *os.File)) string {
	digest, err := digestOf(secretFiles(w.o))
	stable := err == nil && digest == w.seen
	w.seen = digest
	switch {
	case err != nil:
	case digest == w.used:
		w.trouble = ""
		return ""
	case !stable || now.Sub(w.renewed) < secretPause:
		return ""
	default:
		err = openSecrets(w.o)
	}
	var file *os.File
	if err == nil {
		file, err = memoryFile("configuration", w.passed)
	}
	if err != nil {
		if w.trouble == err.Error() {
			return ""
		}
		w.trouble = err.Error()
		return w.trouble + ": the old secrets stay in use"
	}
	w.used, w.trouble, w.renewed = digest, "", now
	renew(serverConfigFile, file)
	return "files of secrets have changed, and were read again"
}
