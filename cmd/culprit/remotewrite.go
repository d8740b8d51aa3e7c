package main

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"culprit/export/remotewrite"
	"culprit/kernel"
	"culprit/measure"
	"culprit/view/term"
)

// writeTokenVariable is the variable of the environment with the token for remote write.
const writeTokenVariable = "CULPRIT_REMOTE_WRITE_TOKEN"

// remoteWriteDirectory has the positions of remote write, in the directory of the recording.
const remoteWriteDirectory = "remote-write"

// openReceivers reads the files of the targets: their certificates, tokens and passwords. The token
// of the environment is that of the only target. The error is a *remotewrite.Fault.
func openReceivers(targets []remotewrite.Target) (all []*remotewrite.Receiver, err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "" // the target's default
	}
	token := os.Getenv(writeTokenVariable)
	if token != "" && len(targets) > 1 {
		return nil, errors.New("$" + writeTokenVariable + " is for one target, and there are " +
			strconv.Itoa(len(targets)) + ": use bearer_token_file")
	}
	for _, t := range targets {
		t.Token = token
		if err := t.Check(); err != nil {
			return nil, err
		}
		r, err := t.Open(host, version)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// writers send what is recorded by remote write, one for each target.
type writers []*remotewrite.Writer

// newWriters returns the writers of a machine.
func newWriters(receivers []*remotewrite.Receiver, m *recordedMachine) (all writers) {
	source := remotewrite.Source{
		Reader: m, Datasets: m.Datasets, Dir: filepath.Join(m.dir, remoteWriteDirectory),
		CPU: kernel.ThreadTime, Ticks: m.Tick,
	}
	for _, r := range receivers {
		all = append(all, remotewrite.New(source, r))
	}
	return all
}

// spent returns the CPU time of all writers.
func (all writers) spent() (sum measure.Span) {
	for _, w := range all {
		sum += w.Spent()
	}
	return sum
}

// lost returns how many samples receivers rejected.
func (all writers) lost() (sum uint64) {
	for _, w := range all {
		sum += w.Lost()
	}
	return sum
}

// problems returns the current problems of all writers.
func (all writers) problems() (list []measure.Problem) {
	for _, w := range all {
		list = append(list, w.Problems()...)
	}
	return list
}

// connectPorts returns the TCP ports that connecting to some addresses needs: their own or those of
// the proxy, and that of names. nil: there are no addresses.
func connectPorts(addresses []string) (all []uint16) {
	add := func(u *url.URL) {
		port := map[string]string{"http": "80", "https": "443", "socks5": "1080"}[u.Scheme]
		if p := u.Port(); p != "" {
			port = p
		}
		if n, err := strconv.ParseUint(port, 10, 16); err == nil &&
			!slices.Contains(all, uint16(n)) {
			all = append(all, uint16(n))
		}
	}
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil {
			continue // who opens it returns the error
		}
		add(&url.URL{Host: ":53"})
		add(u)
		if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil &&
			proxy != nil {
			add(proxy)
		}
	}
	return all
}

// addressesOf returns the addresses to which a server connects: receivers of remote write and of
// findings, and the engine.
func addressesOf(o term.Serving) (all []string) {
	for _, t := range o.Targets {
		all = append(all, t.URL)
	}
	if o.Engine.URL != "" {
		all = append(all, o.Engine.URL)
	}
	return append(all, o.Export.Addresses()...)
}
