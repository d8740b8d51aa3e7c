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
	"culprit/measure"
	"culprit/store"
	"culprit/view/term"
	"culprit/view/web/client"
)

// socketPath gives the socket of the server that records in a directory.
func socketPath(dir string) string { return filepath.Join(dir, "culprit.sock") }

// archivePath gives where a server that records in a directory keeps what it records.
func archivePath(dir string) string { return filepath.Join(dir, "archive") }

// dialTime is how long a server may take to say that it is there.
const dialTime = 10 * time.Second

// dial connects to the server that runs in a directory. errors.Is fs.ErrNotExist when none does.
func dial(dir string) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	c, err := client.Dial(ctx, socketPath(dir))
	switch {
	case errors.Is(err, syscall.ECONNREFUSED): // the socket of one that has gone
		return nil, fmt.Errorf("no server runs in %s: %w", dir, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return nil, &measure.Denied{
			Doing: "look into " + dir,
			Needs: "to be root or the user that records there",
		}
	case errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("look into %s: %w", dir, syscall.ENOTDIR)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no server runs in %s%s: %w", dir, rootRecordHint(dir), fs.ErrNotExist)
	case err != nil:
		return nil, fmt.Errorf("speak to the server in %s: %w", dir, err)
	}
	return c, nil
}

// rootRecordHint says that root records on this machine, to one who looks at another directory.
func rootRecordHint(dir string) string {
	if _, err := os.Stat(rootDirectory); err == nil && dir != rootDirectory {
		return " (root's record is in " + rootDirectory + ": look at it as root)"
	}
	return ""
}

// openRecorded opens what was recorded in a directory: at the server that runs there, else in the
// archive that it has left; or at the server of an address.
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
	s, err := store.OpenReadOnly(archivePath(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf(
			"nothing was recorded in %s%s: start `culprit serve`", dir, rootRecordHint(dir),
		)
	case errors.Is(err, fs.ErrPermission):
		return nil, &measure.Denied{
			Doing: "look into " + dir,
			Needs: "to be root or the user that recorded there",
		}
	case err != nil:
		return nil, err
	}
	return &archiveRecord{dir, s}, nil
}

// openRecordedAt connects to the server of an address, which another machine's may be.
func openRecordedAt(address string) (term.Recorded, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New(
			"connect to the server: its address can't be read",
		) // the error has the token
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	c, err := client.DialURL(ctx, address, tokenFor(u, os.Getenv("CULPRIT_TOKEN")))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.Host, err)
	}
	return &serverRecord{c}, nil
}

// tokenFor gives the token for a server: that of its address; else one that is given for its host,
// as host=token with commas between several, else one that is given for all. "": there is none.
func tokenFor(u *url.URL, given string) string {
	if own := u.Query().Get("token"); own != "" {
		return own
	}
	all := ""
	for one := range strings.SplitSeq(given, ",") {
		host, token, ok := strings.Cut(strings.TrimSpace(one), "=")
		switch {
		case !ok:
			all = host
		case host == u.Host || host == u.Hostname():
			return token
		}
	}
	return all
}

// netnsTerms gives the term that stands for --netns: the recording program's own namespace has no name.
func netnsTerms(netns string) []measure.Term {
	if netns == "all" {
		return nil
	}
	return []measure.Term{{Field: "netns", Op: measure.Equal, Values: []string{netns}}}
}

// serverRecord is what a running server has recorded.
type serverRecord struct{ client *client.Client }

func (a *serverRecord) Held() (over measure.Interval) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	all, err := a.client.Datasets(ctx)
	if err != nil {
		return over // the question that follows says what is wrong
	}
	for _, k := range all {
		over = union(over, k.Held.Over)
	}
	return over
}

func (a *serverRecord) Remark() string { return "" }

func (a *serverRecord) Trouble() []string {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	all, err := a.client.Trouble(ctx)
	if err != nil {
		return nil // as above
	}
	return all
}

func (a *serverRecord) Replay(over measure.Interval, netns string) term.Machine {
	return dataset.NewReplay(a.client, a.client.Stats(), over, netnsTerms(netns)...)
}

func (a *serverRecord) Close() error {
	a.client.Close()
	return nil
}

// union gives the time from the earlier start to the later end; a zero one counts for nothing.
func union(a, b measure.Interval) measure.Interval {
	switch {
	case a == measure.Interval{}:
		return b
	case b == measure.Interval{}:
		return a
	}
	return measure.Interval{Start: min(a.Start, b.Start), End: max(a.End, b.End)}
}

// archiveRecord is what a server that has ended has left.
type archiveRecord struct {
	dir   string
	store *store.Store
}

func (a *archiveRecord) Held() (over measure.Interval) {
	for _, d := range a.store.Datasets() {
		over = union(over, a.store.Held(d.ID).Over)
	}
	return over
}

func (a *archiveRecord) Remark() string {
	end := a.Held().End
	if end == 0 {
		return ""
	}
	age := max(0, time.Since(end.AsTime())).Round(time.Second)
	return fmt.Sprintf(
		"no server runs: this is what was recorded in %s up to %s, %v ago", a.dir,
		end.AsTime().Local().Format("2006-01-02 15:04:05"), age,
	)
}

func (a *archiveRecord) Trouble() (all []string) {
	for _, t := range a.store.Problems() {
		all = append(all, t.Text)
	}
	return all
}

func (a *archiveRecord) Replay(over measure.Interval, netns string) term.Machine {
	var stats []measure.Stat // as they were recorded; then those of this program, so that a tool can say what was not
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
	return dataset.NewReplay(a.store, stats, over, netnsTerms(netns)...)
}

func (a *archiveRecord) Close() error { return a.store.Close() }

// connectServer connects to the running server of a directory, to see and change its datasets.
func connectServer(requested string) (term.Server, error) {
	dir, err := userDirectory(requested)
	if err != nil {
		return nil, err
	}
	c, err := dial(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no server runs in %s%s: start `culprit serve`", dir, rootRecordHint(dir))
	case err != nil:
		return nil, err
	}
	return runningServer{c}, nil
}

// runningServer is a server as the command line speaks to it.
type runningServer struct{ *client.Client }

// Datasets lists what the server records, by ID.
func (r runningServer) Datasets(ctx context.Context) ([]term.Kept, error) {
	all, err := r.Client.Datasets(ctx)
	out := make([]term.Kept, len(all))
	for i, k := range all {
		out[i] = term.Kept(k)
	}
	return out, err
}

// Close lets go of the server.
func (r runningServer) Close() error {
	r.Client.Close()
	return nil
}
