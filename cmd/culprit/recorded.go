package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"culprit/collect"
	"culprit/dataset"
	"culprit/diagnose"
	"culprit/measure"
	"culprit/store"
	"culprit/view/term"
	"culprit/view/web/client"
)

// socketPath returns the path of the socket of the server that records in dir.
func socketPath(dir string) string { return filepath.Join(dir, "culprit.sock") }

// archivePath returns the path of the archive of the server that records in dir.
func archivePath(dir string) string { return filepath.Join(dir, "archive") }

// dialTime is how long a server may take to answer the first request.
const dialTime = 10 * time.Second

// dial connects to the server that records in dir; the caller closes the client. The error is
// fs.ErrNotExist if no server runs, and measure.Denied without permission.
func dial(dir string) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	c, err := client.Dial(ctx, socketPath(dir))
	switch {
	case errors.Is(err, syscall.ECONNREFUSED): // the socket of a server that was killed
		return nil, fmt.Errorf("no server runs in %s: %w", dir, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return nil, &measure.Denied{
			Doing: "open " + dir,
			Needs: "to be root or the user that records there",
		}
	case errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("open %s: %w", dir, syscall.ENOTDIR)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf(
			"no server runs in %s%s: %w", dir, rootRecordHint(dir), fs.ErrNotExist,
		)
	case err != nil:
		return nil, fmt.Errorf("connect to the server in %s: %w", dir, err)
	}
	return c, nil
}

// rootRecordHint returns a hint that root records on this machine, if dir is another directory.
func rootRecordHint(dir string) string {
	if _, err := os.Stat(rootDirectory); err == nil && dir != rootDirectory {
		return " (root records in " + rootDirectory + ": read it as root)"
	}
	return ""
}

// openRecorded opens a recording; the caller closes it. requested is a directory, or the address of
// a server if it contains "://". In a directory it uses the running server, else the archive on
// disk.
func openRecorded(requested string) (term.Recorded, error) {
	if strings.Contains(requested, "://") {
		return openRecordedAt(requested)
	}
	dir, err := userDirectory(requested)
	if err != nil {
		return nil, err
	}
	c, err := dial(dir)
	if err == nil {
		return &serverRecord{c}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s, err := store.OpenReadOnly(filesPath(dir))
	if err != nil {
		return nil, archiveError(dir, err)
	}
	return &archiveRecord{dir, s}, nil
}

// nothingRecorded is the error for a directory without a recording.
func nothingRecorded(dir string) error {
	return fmt.Errorf(
		"nothing was recorded in %s%s: start `culprit serve`", dir, rootRecordHint(dir),
	)
}

// openRecordedAt connects to the server at an address, on this or another machine. Its errors do
// not contain the token of the address.
func openRecordedAt(address string) (term.Recorded, error) {
	u, err := url.Parse(address)
	if err != nil {
		// err contains the token.
		return nil, errors.New("connect to the server: its address can't be read")
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	c, err := client.DialURL(ctx, address, tokenFor(u, os.Getenv("CULPRIT_TOKEN")))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Host, err)
	}
	return &serverRecord{c}, nil
}

// tokenFor returns the token for the server at u; "": none. It is the parameter token of u; else
// the token for its host in given; else the token in given without a host.
//
// Example of given, the value of CULPRIT_TOKEN: "db1=abc,db2:7411=def,xyz".
func tokenFor(u *url.URL, given string) string {
	if own := u.Query().Get("token"); own != "" {
		return own
	}
	anyHost := ""
	for one := range strings.SplitSeq(given, ",") {
		host, token, ok := strings.Cut(strings.TrimSpace(one), "=")
		switch {
		case !ok:
			anyHost = host
		case host == u.Host || host == u.Hostname():
			return token
		}
	}
	return anyHost
}

// netnsTerms returns the predicate of --netns; nil for "all". The server's own namespace is "".
func netnsTerms(netns string) []measure.Term {
	if netns == "all" {
		return nil
	}
	return []measure.Term{{Field: "netns", Op: measure.Equal, Values: []string{netns}}}
}

// A serverRecord is the recording of a running server. It implements term.Recorded.
type serverRecord struct{ client *client.Client }

// Held returns the recorded time; zero if the server does not answer.
func (a *serverRecord) Held() (over measure.Interval) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	all, err := a.client.Datasets(ctx)
	if err != nil {
		return over // the query that follows reports the error
	}
	for _, k := range all {
		over = union(over, k.Held.Over)
	}
	return over
}

// Remark implements term.Recorded: it has none.
func (a *serverRecord) Remark() string { return "" }

// Trouble returns the problems that the server reports.
func (a *serverRecord) Trouble() []string {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	all, err := a.client.Trouble(ctx)
	if err != nil {
		return nil // the query that follows reports the error
	}
	return all
}

// Replay returns the recording within an interval.
func (a *serverRecord) Replay(during measure.Interval, netns string) term.Machine {
	return dataset.NewReplay(a.client, a.client.Stats(), during, netnsTerms(netns)...)
}

// Findings calls each for the diagnoses that the server logged.
func (a *serverRecord) Findings(
	ctx context.Context, over measure.Interval, each func(at measure.Time, document []byte) error,
) error {
	return a.client.Findings(ctx, over, each)
}

// Close closes the connection.
func (a *serverRecord) Close() error {
	a.client.Close()
	return nil
}

// union returns the interval from the earlier start to the later end. A zero interval is ignored.
func union(a, b measure.Interval) measure.Interval {
	switch {
	case a == measure.Interval{}:
		return b
	case b == measure.Interval{}:
		return a
	}
	return measure.Interval{Start: min(a.Start, b.Start), End: max(a.End, b.End)}
}

// An archiveRecord is the archive of a server that has ended. It implements term.Recorded.
type archiveRecord struct {
	dir   string
	store *store.Store
}

// Held returns the recorded time; zero if the archive is empty.
func (a *archiveRecord) Held() (over measure.Interval) {
	for _, d := range a.store.Datasets() {
		over = union(over, a.store.Held(d.ID).Over)
	}
	return over
}

// Remark returns a note with the archive's age; "" if it is empty.
func (a *archiveRecord) Remark() string {
	end := a.Held().End
	if end == 0 {
		return ""
	}
	age := max(0, time.Since(end.AsTime())).Round(time.Second)
	return fmt.Sprintf(
		"no server runs: this was recorded in %s until %s, %v ago", a.dir,
		end.AsTime().Local().Format("2006-01-02 15:04:05"), age,
	)
}

// Trouble returns the problems of the archive, such as damaged parts.
func (a *archiveRecord) Trouble() (all []string) {
	for _, t := range a.store.Problems() {
		all = append(all, t.Text)
	}
	return all
}

// Replay returns the recording within an interval. Its statistics are the recorded ones, then those
// of this program: so a tool can report which were not recorded.
func (a *archiveRecord) Replay(during measure.Interval, netns string) term.Machine {
	var stats []measure.Stat
	for _, d := range a.store.Datasets() {
		if !slices.ContainsFunc(stats, func(st measure.Stat) bool { return st.ID == d.Stat.ID }) {
			stats = append(stats, d.Stat)
		}
	}
	for _, st := range dataset.New(sources(collect.Env{}, 0)...).Stats() {
		if !slices.ContainsFunc(stats, func(r measure.Stat) bool { return r.ID == st.ID }) {
			stats = append(stats, st)
		}
	}
	return dataset.NewReplay(a.store, stats, during, netnsTerms(netns)...)
}

// Findings calls each for the diagnoses in the log of the archive.
func (a *archiveRecord) Findings(
	ctx context.Context, over measure.Interval, each func(at measure.Time, document []byte) error,
) error {
	return diagnose.Reports(ctx, a.store, over, each)
}

// Close closes the archive.
func (a *archiveRecord) Close() error { return a.store.Close() }

// connectServer connects to the server that records in a directory, to list and change its
// datasets. The caller closes it.
func connectServer(requested string) (term.Server, error) {
	c, err := connectClient(requested)
	if err != nil {
		return nil, err
	}
	return runningServer{c}, nil
}

// connectClient connects to the server that records in a directory. The caller closes it.
func connectClient(requested string) (*client.Client, error) {
	dir, err := userDirectory(requested)
	if err != nil {
		return nil, err
	}
	c, err := dial(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf(
			"no server runs in %s%s: start `culprit serve`", dir, rootRecordHint(dir),
		)
	}
	return c, err
}

// A runningServer implements term.Server with a client.
type runningServer struct{ *client.Client }

// Datasets returns the datasets of the server, ordered by ID.
func (r runningServer) Datasets(ctx context.Context) ([]term.DatasetStatus, error) {
	all, err := r.Client.Datasets(ctx)
	out := make([]term.DatasetStatus, len(all))
	for i, k := range all {
		out[i] = term.DatasetStatus(k)
	}
	return out, err
}

// Close closes the connection.
func (r runningServer) Close() error {
	r.Client.Close()
	return nil
}
