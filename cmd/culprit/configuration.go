package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"culprit/supervise"
	"culprit/trusted"
	"culprit/view/term"
	"culprit/view/web/listen"
	"culprit/yamlfile"
)

// Indexes of the configuration in the files of the processes.
const (
	recorderConfigFile = 0
	serverConfigFile   = 2
)

// readConfig returns the configuration file of a path. The processes of a server get the text that
// their supervisor has checked: they may not be able to read the file, and it may have changed. The
// error is fs.ErrNotExist, an *trusted.Error, or that of reading.
func (s *serverProcesses) readConfig(path string) (term.ConfigText, error) {
	control, err := s.attach()
	if err != nil {
		return term.ConfigText{}, err
	}
	if control != nil {
		return passedConfig(control, path)
	}
	f, err := trusted.OpenFollowing(path)
	if err != nil {
		return term.ConfigText{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return term.ConfigText{}, err
	}
	// The parser reports a larger one.
	text, err := io.ReadAll(io.LimitReader(f, yamlfile.MaxSize+1))
	const othersRead = 0o004
	return term.ConfigText{
		Name: path, Text: text, Readable: info.Mode().Perm()&othersRead != 0,
	}, err
}

// passedConfig returns the configuration that the supervisor has passed to this process. Workers
// get none.
func passedConfig(control *supervise.Control, path string) (term.ConfigText, error) {
	index := serverConfigFile
	if control.Name == recorderName {
		index = recorderConfigFile
	}
	if index >= len(control.Files) {
		return term.ConfigText{Name: path}, nil
	}
	text, err := io.ReadAll(io.NewSectionReader(control.Files[index], 0, 2*yamlfile.MaxSize))
	return term.ConfigText{Name: path, Text: text}, err
}

// configFiles adds the configuration to the files of the server, and returns that of the recorder.
// The error is of making files in memory. The supervisor keeps the files until it ends.
func configFiles(o term.Serving, server *[]*os.File) (recorder *os.File, err error) {
	text := o.Config.Passed
	if recorder, err = memoryFile("configuration", text); err != nil {
		return nil, err
	}
	file, err := memoryFile("configuration", text)
	if err != nil {
		return nil, err
	}
	*server = append(*server, file)
	return recorder, nil
}

// checkServing returns what is wrong with the address of a server and with the files that its
// configuration names.
func checkServing(o term.Serving) error {
	certificate, err := readCertificate(o)
	if err != nil {
		return err
	}
	if err := listen.CheckAddress(o.Listen, certificate != nil); err != nil {
		return err
	}
	return openSecrets(o)
}

// reloadConfig reads the configuration again on a hangup, and renews the server when something has
// changed, also when files of secrets have. The recorder goes on, so no tick is lost. The returned
// channel gets the hangups for the certificate. It ends with ctx.
func reloadConfig(
	ctx context.Context, o term.Serving, console *term.Teller, hangup <-chan os.Signal,
	s *supervise.Supervisor,
) (certificate <-chan os.Signal) {
	passed := make(chan os.Signal, 1)
	go followConfig(ctx, newSecretWatch(o), console, hangup, passed, s)
	return passed
}

// followConfig does the work of reloadConfig. A hangup that the certificate has not taken counts
// for the later ones.
func followConfig(
	ctx context.Context, w *secretWatch, console *term.Teller, hangup <-chan os.Signal,
	passed chan<- os.Signal, s *supervise.Supervisor,
) {
	poll := time.NewTicker(secretPoll)
	defer poll.Stop()
	reload := w.o.Config.Reload
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-poll.C:
			if line := w.look(now, s.Renew); line != "" {
				console.Say("culprit: " + line)
			}
			continue
		case signal := <-hangup:
			select {
			case passed <- signal:
			default:
			}
		}
		lines, r := reloadOnce(reload, s.Renew)
		if r != nil {
			w.configured(r.Serving, r.Passed)
		} else if line := w.lookNow(time.Now(), s.Renew); line != "" {
			lines = append(lines, line)
		}
		for _, line := range lines {
			console.Say("culprit: " + line)
		}
	}
}

// reloadOnce reads the configuration again and calls renew with it when something has changed. It
// returns what to print, and the configuration that renew got; nil: it was not called.
func reloadOnce(
	reload func() (*term.Reloaded, error), renew func(index int, file *os.File),
) (lines []string, changed *term.Reloaded) {
	keep := func(err error) []string {
		return []string{fmt.Sprintf("%v: the old configuration stays in use", err)}
	}
	r, err := reload()
	if err != nil {
		return keep(err), nil
	}
	if len(r.Restart) > 0 {
		lines = append(lines, fmt.Sprintf(
			"the configuration has changed in what needs a restart, and keeps the old values: %s",
			strings.Join(r.Restart, ", "),
		))
	}
	if len(r.Changed) == 0 {
		return append(lines, "the configuration was read again: nothing else has changed"), nil
	}
	file, err := memoryFile("configuration", r.Passed)
	if err != nil {
		return keep(err), nil
	}
	renew(serverConfigFile, file)
	return append(lines, "the configuration was read again: "+strings.Join(r.Changed, ", ")), r
}
