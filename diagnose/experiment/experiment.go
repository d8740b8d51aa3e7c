package experiment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/attribute"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/measure"
)

// The statistics that are measured.
const (
	// DiskBytes has the program of each request to a disk.
	DiskBytes = `disk.io.bytes by device,process,pid`
	// Starts has the programs that are started, and who starts them.
	Starts = `process.exec.count by process,parent,parentprocess`
	// Drops has why packets are dropped.
	Drops = `packet.drop.count by netns,device,protocol,port,reason,location`
)

// Seconds is how long an experiment lasts.
const Seconds = 3

// least is how many seconds must have been measured.
const least = 2.0

// A Plan is what to measure for a report.
type Plan struct {
	report  *diagnose.Report
	disks   []int // findings about a disk whose busy time is divided by an estimate
	starts  []int // findings about short-lived processes
	waits   []int // findings about processes that wait
	drops   []int // findings about packets that the kernel drops
	Queries []string
}

// NewPlan returns what to measure so that fewer findings of a report rest on estimates. Its Queries
// and Waiting are empty when there is nothing to measure.
func NewPlan(r *diagnose.Report) *Plan {
	p := &Plan{report: r}
	for i := range r.Findings {
		f := &r.Findings[i]
		disk, ok := f.Subject.(facts.SaturatedDisk)
		switch {
		case len(subjectOf(f).PIDs) > 0:
			p.waits = append(p.waits, i)
		case droppedOf(f).At != 0:
			p.drops = append(p.drops, i)
		case ok && disk.Device != "" && f.Attribution != nil:
			p.disks = append(p.disks, i)
		case f.Rule == "fork-storm" || strings.HasPrefix(f.ID, "cpu-saturated/short-lived"):
			p.starts = append(p.starts, i)
		}
	}
	if len(p.disks) > 0 {
		p.Queries = append(p.Queries, DiskBytes)
	}
	if len(p.starts) > 0 {
		p.Queries = append(p.Queries, Starts)
	}
	if len(p.drops) > 0 {
		p.Queries = append(p.Queries, Drops)
	}
	return p
}

// Findings returns the IDs of the findings that the plan is for.
func (p *Plan) Findings() []string {
	var ids []string
	for i := range p.report.Findings {
		if slices.Contains(p.disks, i) || slices.Contains(p.starts, i) ||
			slices.Contains(p.waits, i) || slices.Contains(p.drops, i) {
			ids = append(ids, p.report.Findings[i].ID)
		}
	}
	return ids
}

// Apply updates the findings with the answers of a reader, and returns what changed, as sentences.
// The error is that of the reader, or reports that nothing was measured.
func (p *Plan) Apply(ctx context.Context, r measure.Reader) (changed []string, err error) {
	for _, list := range []struct {
		query    string
		findings []int
		update   func(*diagnose.Finding, *answer) string
	}{{DiskBytes, p.disks, updateDisk}, {Starts, p.starts, updateStarts},
		{Drops, p.drops, updateDrops}} {
		if len(list.findings) == 0 {
			continue
		}
		a, err := ask(ctx, r, list.query)
		if err != nil {
			return changed, err
		}
		for _, i := range list.findings {
			f := &p.report.Findings[i]
			if text := list.update(f, a); text != "" {
				changed = append(changed, f.ID+": "+text)
			}
		}
	}
	return changed, nil
}

// An answer is the rows of a query, with their mean rates.
type answer struct {
	unit string
	over [2]measure.Time
	rows []rate
}

// A rate is a row: its words, in the order of the query's fields, and its mean per second.
type rate struct {
	words []string
	value float64
}

// ask asks a query and returns the rates of its rows over all measured time.
func ask(ctx context.Context, r measure.Reader, query string) (*answer, error) {
	q, err := measure.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	a, err := r.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	seconds := 0.0
	for _, e := range a.Elapsed {
		seconds += max(e.Seconds(), 0)
	}
	if seconds < least {
		why := "it was measured for too short a time"
		if len(a.Notes) > 0 {
			why = phrase.Printable(strings.Join(a.Notes, "; "))
		}
		return nil, fmt.Errorf("%s: %s", q.Stat, why)
	}
	out := &answer{unit: string(a.Unit), over: [2]measure.Time{a.Over().Start, a.Over().End}}
	for _, s := range a.Series {
		if len(s.Key) < len(q.By) {
			continue
		}
		one := rate{}
		for _, l := range s.Key[:len(q.By)] {
			word := ""
			if int(l) < len(a.Labels) {
				word = a.Labels[l]
			}
			one.words = append(one.words, word)
		}
		for c, v := range s.Values {
			if c < len(a.Elapsed) && v > 0 {
				one.value += v * a.Elapsed[c].Seconds() / seconds
			}
		}
		if one.value > 0 {
			out.rows = append(out.rows, one)
		}
	}
	return out, nil
}

// writers are the kernel threads that pass requests on for programs that wrote before.
const writers = "kernel threads, for programs that wrote before,"

// A diskUser is a program that causes requests to a disk.
type diskUser struct {
	name    string         // of the process
	program *facts.Program // of the report; nil: it is not in the report
	pids    []string
	most    float64 // bytes per second of its first process
	first   int     // the process that caused most
	bytes   float64 // per second
}

// diskUsers returns who caused requests to a device, with the bytes per second of all.
func diskUsers(a *answer, disk *facts.SaturatedDisk) (users []*diskUser, total float64) {
	at := map[string]*diskUser{}
	for _, r := range a.rows {
		if r.words[0] != disk.Device {
			continue
		}
		pid, _ := strconv.Atoi(r.words[2])
		key, one := r.words[1], diskUser{name: r.words[1]}
		if isWriter(one.name) {
			key, one.name, pid = writers, writers, 0
		}
		for i := range disk.Programs {
			if p := &disk.Programs[i]; p.Has(pid) {
				key, one.program = "\x00"+strconv.Itoa(i), p
				break
			}
		}
		u := at[key]
		if u == nil {
			u = &one
			at[key] = u
			users = append(users, u)
		}
		u.bytes += r.value
		total += r.value
		u.pids = append(u.pids, r.words[2])
		if r.value > u.most {
			u.most, u.first = r.value, pid
		}
	}
	return users, total
}

// isWriter reports whether a thread of the kernel passes on what programs wrote before.
func isWriter(name string) bool {
	for _, prefix := range []string{"kworker/", "jbd2/", "flush-", "xfsaild/", "btrfs-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// statistic returns a query of the bytes that a user moves at a device.
func (u *diskUser) statistic(device string) string {
	q := measure.Query{Stat: "disk.io.bytes", Where: []measure.Term{
		{Field: "device", Op: measure.Equal, Values: []string{device}}}}
	switch {
	case len(u.pids) == 1:
		q.Where = append(q.Where,
			measure.Term{Field: "pid", Op: measure.Equal, Values: u.pids})
	case len(u.pids) <= mostPIDs:
		q.Where = append(q.Where, measure.Term{Field: "pid", Op: measure.In, Values: u.pids})
	case u.name == writers:
		q.By = []string{"process"}
	default:
		q.Where = append(q.Where,
			measure.Term{Field: "process", Op: measure.Equal, Values: []string{u.name}})
	}
	return q.String()
}

// mostPIDs is the most processes that a query lists.
const mostPIDs = 100

// user returns a user with its part of the total, which is that of all bytes.
func (u *diskUser) user(was *diagnose.Attribution, device string, all float64) attribute.User {
	out := attribute.User{Name: phrase.ProcessName(u.name, u.first), PID: u.first,
		Part: u.bytes / all * float64(was.Total), Statistic: u.statistic(device)}
	if u.program == nil {
		return out
	}
	out.Name, out.Group, out.PID = u.program.String(), u.program.Group(), u.program.PID()
	for _, old := range was.Users {
		if old.Name == out.Name {
			if out.Wants = out.Part + float64(old.Wants-old.Part); old.Wants >= was.Total {
				out.Wants = float64(was.Total) // it fills the disk alone
			}
		}
	}
	return out
}

// updateDisk divides the busy time of a disk again, by the bytes of the requests of each program.
func updateDisk(f *diagnose.Finding, a *answer) string {
	disk, _ := f.Subject.(facts.SaturatedDisk)
	found, moved := diskUsers(a, &disk)
	if !(moved > 0) {
		return "no request to " + phrase.Clean(disk.Device) + " ended meanwhile"
	}
	was := f.Attribution
	var users []attribute.User
	for _, u := range found {
		users = append(users, u.user(was, disk.Device, moved))
	}
	d := attribute.Divide(&attribute.Resource{Name: was.Resource, Unit: was.Unit,
		Total: float64(was.Total), Limit: float64(was.Limit), Least: disk.Least, Users: users,
		Amount: phrase.Percent, Basis: "measured: bytes of requests, by the program that caused " +
			"them; estimated: how long programs wait for the disk",
		State: func(use float64) string {
			return disk.Title + " would be busy " + phrase.Percent(use) + " of the time"
		}})
	if len(d.Order) == 0 {
		return ""
	}
	f.Attribution = d.Report()
	top, user := found[d.Order[0]], users[d.Order[0]]
	f.Evidence = append(f.Evidence, diagnose.Evidence{Text: fmt.Sprintf(
		"%s caused %s of requests to %s, %s of them (measured)", user.Name,
		phrase.BytesRate(top.bytes), phrase.Clean(disk.Device), phrase.Percent(top.bytes/moved)),
		Statistic: user.Statistic, Value: diagnose.Number(top.bytes), Unit: a.unit, Over: a.over,
		ComparedWith: diagnose.Number(moved), ComparedAs: "all requests to it"})
	text := f.Evidence[len(f.Evidence)-1].Text
	if d.Named == 0 {
		return "no few programs cause its requests; " + text
	}
	f.SetExplains(d.Share(d.Named))
	culprit := diagnose.Culprit{Kind: "process", Name: top.name, PID: top.first}
	if top.program != nil {
		culprit = top.program.Culprit()
	}
	if top.name == writers || f.Culprit.Kind == "memory" || f.Culprit == culprit {
		return text
	}
	f.Culprit, f.Fix = culprit, nil // the fix is that of another program
	f.Claim = strings.TrimSuffix(f.Claim, ".") + "; measured, " + d.Names(d.Named) + " of it."
	return "the culprit is " + user.Name + ": " + text
}

// updateStarts names who starts most programs, and which.
func updateStarts(f *diagnose.Finding, a *answer) string {
	type starter struct {
		name, pid, program string
		rate, most         float64
	}
	var all []*starter
	total := 0.0
	for _, r := range a.rows {
		i := slices.IndexFunc(all, func(s *starter) bool { return s.pid == r.words[1] })
		if i < 0 {
			i = len(all)
			all = append(all, &starter{name: r.words[2], pid: r.words[1]})
		}
		s := all[i]
		s.rate += r.value
		total += r.value
		if r.value > s.most {
			s.most, s.program = r.value, r.words[0]
		}
	}
	if len(all) == 0 {
		return "no program was started meanwhile"
	}
	slices.SortFunc(all, func(a, b *starter) int {
		return cmp.Or(cmp.Compare(b.rate, a.rate), strings.Compare(a.pid, b.pid))
	})
	s := all[0]
	pid, _ := strconv.Atoi(s.pid)
	e := diagnose.Evidence{Text: fmt.Sprintf("%s started %s programs per second, most of them %s: "+
		"%s of all starts (measured)", phrase.ProcessName(s.name, pid), phrase.Count(s.rate),
		phrase.Clean(s.program), phrase.Percent(s.rate/total)), Value: diagnose.Number(s.rate),
		Unit: a.unit, Over: a.over, ComparedWith: diagnose.Number(total), ComparedAs: "all starts",
		Statistic: measure.Query{Stat: "process.exec.count", Where: []measure.Term{
			{Field: "parent", Op: measure.Equal, Values: []string{s.pid}}}}.String()}
	f.Evidence = append(f.Evidence, e)
	unknown := f.Culprit.Name == "short-lived processes" || f.Culprit.Kind != "process"
	if unknown && s.rate >= mostStarts*total && pid > 0 {
		f.Culprit = diagnose.Culprit{Kind: "process", Name: s.name, PID: pid}
		return "the culprit is " + phrase.ProcessName(s.name, pid) + ": " + e.Text
	}
	return e.Text
}

// mostStarts is the share of all starts from which on a process is named as their cause.
const mostStarts = 0.5
