package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// killAttacks end one process after another.
func killAttacks() []attack {
	return []attack{
		{"K1", "the kernel", "kill -9 of each process but the recorder and the supervisor",
			"no second lost", killOthers},
		{"K2", "the kernel", "kill -9 of a worker while it answers, 5 times",
			"503 or an answer, no second lost", killWorkers},
		{"K3", "the kernel", "a symbolizer that never answers (SIGSTOP)",
			"a note, no second lost, names later", stoppedSymbols},
	}
}

// killOthers kills the processes of which the death costs no second.
func killOthers(b *bench) (string, error) {
	s := b.main
	var killed []string
	for name, pids := range s.processes() {
		if name == "culprit" || name == "culprit-record" {
			continue
		}
		killed = append(killed, name)
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				return "", fmt.Errorf("kill %s: %w", name, err)
			}
		}
		if err := s.within(20*time.Second, "an answer", s.answers); err != nil {
			return "", fmt.Errorf("after the death of %s: %w", name, err)
		}
	}
	slices.Sort(killed)
	return "killed " + strings.Join(killed, ", "), nil
}

// slowQuestion takes a worker some time.
const slowQuestion = `count_values("x", {__name__=~".+"})`

// killWorkers kills workers while they answer.
func killWorkers(b *bench) (string, error) {
	t, killed := &tally{}, 0
	for range 5 {
		status := make(chan string, 1)
		go func() {
			a, _, err := b.form("query", slowQuestion)
			if err != nil {
				status <- err.Error()
				return
			}
			status <- fmt.Sprint(a.status)
		}()
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			pids := b.main.processes()[worker]
			for _, pid := range pids {
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
				killed++
			}
			if len(pids) > 0 {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.add("a question", <-status, "200", "503")
	}
	if killed == 0 {
		return "", errors.New("no worker was killed: the attack has to be adapted")
	}
	a, _, err := b.form("query", "1")
	if err != nil || a.status != 200 {
		return "", failed(err, "after it: status %d", a.status)
	}
	return t.result()
}

// compared are the queries whose values the archive must contain as the live view had them.
// table: queries
var compared = []string{"sched.forks", "sched.switches", "cpu.time by cpu,mode"}

// record is what a live view had, by query and end of the interval in milliseconds: the length of
// the interval and the values as text.
type record map[string]map[int64]string

func (r record) put(query string, at int64, text string) {
	if r[query] == nil {
		r[query] = map[int64]string{}
	}
	r[query][at] = text
}

// cellText returns the interval and the values of one cell of an answer.
func cellText(a answer, cell int) string {
	rows := map[string]string{}
	for _, s := range a.Series {
		if v := s.Values[cell]; v != nil {
			rows[fmt.Sprint(s.Key)] = fmt.Sprint(*v)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%.3f ms", a.Elapsed[cell])
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&b, " %s=%s", key, rows[key])
	}
	return b.String()
}

// stream follows the queries live until the connection ends, and passes each tick to keep.
func (s *server) stream(ctx context.Context, keep func(query string, at int64, text string)) error {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.host+"/api/live?"+
		url.Values{"q": compared}.Encode(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var tick struct {
			At      int64 `json:"at_ms"`
			Answers []struct {
				Query string
				answer
			}
		}
		if json.Unmarshal([]byte(data), &tick) != nil { // another event
			continue
		}
		for i, one := range tick.Answers {
			if len(one.Elapsed) == 1 && one.Elapsed[0] > 0 && i < len(compared) {
				keep(compared[i], tick.At, cellText(one.answer, 0))
			}
		}
	}
	return lines.Err()
}

// campaign kills processes and keeps the record to compare with.
type campaign struct {
	s      *server
	random *rand.Rand
	mu     sync.Mutex
	seen   record
	deaths []death
	counts map[string]int
	down   time.Duration // the longest time until an answer after a death
	lost   int           // seconds that no interval covers, of times in which the recorder lived
}

// death is one kill. At that of the supervisor all processes end.
type death struct {
	name string
	at   time.Time
	back time.Time // when the server answered again; zero: it has not
}

// killMany kills each process in turn at random moments under load, and compares the archive with a
// live view that was recorded apart.
func (b *bench) killMany() (int, error) {
	fmt.Printf("%d kills, -seed %d\n", b.kills, b.seed)
	c := &campaign{
		random: rand.New(rand.NewPCG(b.seed, 1)), seen: record{}, counts: map[string]int{},
	}
	load := exec.Command("sh", "-c",
		"while :; do /bin/true; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done")
	if err := b.helper(load); err != nil {
		return 1, err
	}
	dir, began := b.newDir(), time.Now()
	var err error
	if c.s, err = b.serve(dir); err != nil {
		return 1, err
	}
	b.main = c.s
	for done := 0; done < b.kills; {
		n, err := c.round(b.kills - done)
		if err != nil {
			return 1, fmt.Errorf("after %d kills: %w", done+n, err)
		}
		done += n
		if !c.s.gone() { // the last round ended before the turn of the supervisor
			break
		}
		tokens := c.s.tokens
		if c.s, err = b.serve(dir); err != nil {
			return 1, fmt.Errorf("after %d kills: %w", done, err)
		}
		c.s.tokens, b.main = tokens, c.s // they are in the directory
	}
	time.Sleep(3 * time.Second)
	return c.compare(began)
}

// round kills each process once, the supervisor last. It returns the number of kills.
func (c *campaign) round(most int) (n int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = c.s.stream(ctx, c.keep) // it ends with the server
			time.Sleep(20 * time.Millisecond)
		}
	})
	wg.Go(func() { // a worker is there to be killed
		for ctx.Err() == nil {
			_, _, _ = c.s.bench.form("query", slowQuestion) // it ends with the server
			time.Sleep(300 * time.Millisecond)
		}
	})
	time.Sleep(500 * time.Millisecond)
	start := time.Now()
	names := slices.Sorted(maps.Keys(c.s.processes()))
	c.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = slices.DeleteFunc(names, func(n string) bool { return n == "culprit" })
	recorderDied := false
	for _, name := range append(names, "culprit") {
		if n == most {
			break
		}
		time.Sleep(time.Duration(c.random.IntN(2500)) * time.Millisecond)
		pids := c.s.processes()[name]
		if len(pids) == 0 {
			continue // a child that has ended
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
		at := time.Now()
		c.deaths = append(c.deaths, death{name: name, at: at})
		c.counts[name]++
		n++
		if name == "culprit" {
			<-c.s.ended
			return n, c.s.allEnded()
		}
		recorderDied = recorderDied || name == "culprit-record"
		if err := c.s.within(40*time.Second, "an answer after the death of "+name, func() error {
			_, err := c.s.troubles()
			return err
		}); err != nil {
			return n, err
		}
		c.down = max(c.down, time.Since(at))
		c.deaths[len(c.deaths)-1].back = time.Now()
		if !recorderDied { // recording goes on
			lost, err := c.s.lost(start, time.Now())
			if err != nil {
				return n, err
			}
			if lost > 0 {
				fmt.Printf("%d seconds lost at the death of %s\n", lost, name)
				c.lost += lost
			}
		}
	}
	return n, nil
}

// allEnded waits until the processes that the supervisor has left have ended.
func (s *server) allEnded() error {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left := members(s.bench.group)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("20 s after the death of the supervisor processes %v run", left)
		}
	}
}

func (c *campaign) keep(query string, at int64, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.put(query, at, text)
}

// archived returns what the archive has of a query since a time.
func (s *server) archived(query string, since time.Time) (map[int64]string, error) {
	const part = 10 * time.Minute
	got := map[int64]string{}
	for from := since.Truncate(time.Second); from.Before(time.Now()); from = from.Add(part) {
		a, err := s.ask(query, from, from.Add(part))
		if err != nil {
			return nil, err
		}
		for i, e := range a.Elapsed {
			if e > 0 {
				got[int64(a.Start+a.Step*float64(i+1))] = cellText(a, i)
			}
		}
	}
	return got, nil
}

// compare asks the archive for all that the live view had.
func (c *campaign) compare(began time.Time) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	same, missing, wrong, allowed := 0, 0, 0, 0
	for _, query := range compared {
		got, err := c.s.archived(query, began)
		if err != nil {
			return 1, err
		}
		for at, text := range c.seen[query] {
			when := time.UnixMilli(at).Format("15:04:05")
			switch is := got[at]; {
			case is == text:
				same++
			case is == "" && c.mayBeLost(at):
				allowed++
			case is == "":
				missing++
				fmt.Printf("%s at %s is missing; deaths near it: %s\n", query, when, c.near(at))
			default:
				wrong++
				fmt.Printf("%s at %s is %s, was %s\n", query, when, is, text)
			}
		}
	}
	fmt.Printf("killed: %v\n", c.counts)
	fmt.Printf("%d values were live: %d are equal in the archive, %d of the last two seconds "+
		"before a death of all are lost, %d are missing, %d differ\n",
		same+allowed+missing+wrong, same, allowed, missing, wrong)
	fmt.Printf("%d seconds lost at the death of other processes than recorder and supervisor\n",
		c.lost)
	fmt.Printf("longest time without an answer: %v\n", c.down.Round(time.Millisecond))
	if missing+wrong+c.lost > 0 || same == 0 {
		return 1, errors.New("the archive differs from the live view")
	}
	return 0, nil
}

// near lists the deaths within ten seconds of a tick, in seconds after it.
func (c *campaign) near(at int64) string {
	var all []string
	for _, d := range c.deaths {
		if after := float64(d.at.UnixMilli()-at) / 1000; after > -10 && after < 10 {
			all = append(all, fmt.Sprintf("%s %+.1f s", d.name, after))
		}
	}
	return strings.Join(all, ", ")
}

// mayBeLost reports whether a tick is at most two seconds older than a death of the supervisor, by
// which all processes end. So may be a tick that the recorder kept for a server that had died, if
// the next server had it for less than two seconds.
func (c *campaign) mayBeLost(at int64) bool {
	const durable = 2000
	for i, d := range c.deaths {
		if d.name != "culprit" {
			continue
		}
		end := d.at.UnixMilli()
		if before := end - at; before >= -1000 && before <= durable {
			return true
		}
		if i == 0 || c.deaths[i-1].name != "culprit-server" {
			continue
		}
		server := c.deaths[i-1]
		if at >= server.at.UnixMilli()-durable && at <= end &&
			end-server.back.UnixMilli() <= durable {
			return true
		}
	}
	return false
}
