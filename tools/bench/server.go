package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A stage is the server's resource usage between two readings.
type stage struct {
	Program  string
	After    time.Duration // from its start to the end of the stage
	CPU      float64       // share of one CPU since the stage before, user and system
	Resident int64         // bytes at the end, pages of its program's file included
	Anon     int64         // of it, what is its own alone
	Peak     int64         // most bytes resident so far
	Heap     int64         // bytes of the Go heap that were alive after the newest collection
	Goal     int64         // bytes that it was to have at most when that one ended
	GC       float64       // share of one CPU that collections took since the stage before
	Values   float64       // values recorded a second, lately
	Disk     int64         // bytes of its directory
}

// pageAsks are the queries of the page when it opens. A test compares them with
// ui/data/use/shapes.ts.
//
// table: constant
var pageAsks = []string{
	"cpu.time by mode",
	"cpu.time by cpu where mode != idle and mode != iowait",
	"sched.runnable",
	"sched.load by window",
	"memory.size by kind",
	"memory.scan",
	"memory.swap where direction = out",
	"memory.oom",
	"pressure.time by resource where scope = some",
	"disk.busy by device",
	"disk.queue by device",
	"disk.bytes by device,direction",
	"disk.errors by device",
	"disk.info by device,kind",
	"net.device.bytes by netns,device,direction",
	"net.device.capacity by netns,device,direction",
	"net.device.info by netns,device,kind,duplex",
	"net.device.drops by netns,device",
	"net.device.fifo by netns,device",
	"net.qdisc.drops by netns,device where parent = root",
	"net.device.errors by netns,device",
}

// stages are the times after its start at which the server is looked at.
func (s *settings) stages() []time.Duration {
	all := []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 3 * time.Minute}
	for next := 5 * time.Minute; next <= s.Soak; next += 5 * time.Minute {
		all = append(all, next)
	}
	return all
}

// processes returns a process and its children.
func processes(pid int) []int {
	all := []int{pid}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, list := range lists {
		b, _ := os.ReadFile(list) // the thread may have ended
		for word := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// A serving is one running server.
type serving struct {
	program string
	address string // in a network namespace of its own
	dir     string
	token   string
	cmd     *exec.Cmd
	heap    heapTrace
	used    time.Duration // CPU time up to the look before
	gc      time.Duration // of it collections
	last    time.Time
}

// serve runs the server with all its datasets for three minutes, or for the length of the soak.
// After half a minute somebody opens the page, and leaves it open. Where another build is to be
// compared, it runs in the same world at the same time.
func (s *settings) serve() (r result, err error) {
	r.World = s.World
	var all []*serving
	for i, program := range append([]string{s.Culprit}, s.Beside...) {
		v := &serving{program: program, address: fmt.Sprint("127.0.0.1:", 7410+i)}
		if v.dir, err = os.MkdirTemp(s.Dir, ""); err != nil {
			return r, err
		}
		v.cmd = exec.Command(program, "serve", "--dir", v.dir, "--listen", v.address)
		v.cmd.Env = append(os.Environ(), "GODEBUG=gctrace=1")
		stderr, err := v.cmd.StderrPipe()
		if err != nil {
			return r, err
		}
		if err := v.cmd.Start(); err != nil {
			return r, err
		}
		go v.heap.follow(stderr)
		defer func() {
			v.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
			v.cmd.Wait()                          //nolint:errcheck // it was ended by a signal
		}()
		all = append(all, v)
	}
	started := time.Now()
	for i, after := range s.stages() {
		time.Sleep(time.Until(started.Add(after)))
		for _, v := range all {
			now, cpu, pid := time.Now(), tree(v.cmd.Process.Pid), v.cmd.Process.Pid
			heap, goal, gc := v.heap.now()
			if i == 0 { // starting, and the first diagnosis, are left out
				b, err := os.ReadFile(filepath.Join(v.dir, "token"))
				if err != nil {
					return r, fmt.Errorf("the server is not there: %w", err)
				}
				v.token = strings.TrimSpace(string(b))
			} else {
				over := now.Sub(v.last).Seconds()
				g := stage{
					Program: v.program,
					After:   after,
					Heap:    heap,
					Goal:    goal,
					CPU:     (cpu - v.used).Seconds() / over,
					GC:      (gc - v.gc).Seconds() / over,
				}
				// Pages of the program's file count in each of the server's processes.
				for _, one := range processes(pid) {
					g.Resident += memory(one, "VmRSS")
					g.Peak += memory(one, "VmHWM")
					g.Anon += memory(one, "RssAnon")
				}
				if g.Values, g.Disk, err = v.recorded(); err != nil {
					return r, err
				}
				r.Server = append(r.Server, g)
				if s.Soak > 0 { // a run that is cut short has said so much
					serverTable(os.Stderr, r.Server[len(r.Server)-1:])
				}
			}
			v.used, v.last, v.gc = cpu, now, gc
			if i == 1 {
				if err := v.look(); err != nil {
					return r, fmt.Errorf("open the page: %w", err)
				}
			}
		}
	}
	return r, nil
}

func (v *serving) get(path string) (io.ReadCloser, error) {
	req, err := http.NewRequest("GET", "http://"+v.address+"/"+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+v.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		return nil, fmt.Errorf("%s: %s: %s", path, res.Status, text)
	}
	return res.Body, nil
}

// recorded returns the values per second of all datasets, and the bytes of the archive.
func (v *serving) recorded() (values float64, disk int64, err error) {
	read := func(path string, to any) error {
		body, err := v.get(path)
		if err != nil {
			return err
		}
		defer body.Close()
		return json.NewDecoder(body).Decode(to)
	}
	var sets struct {
		Datasets []struct {
			Samples float64 `json:"samples_per_s"`
		}
	}
	var health struct {
		Disk int64 `json:"disk_bytes"`
	}
	if err := read("api/datasets", &sets); err != nil {
		return 0, 0, err
	}
	for _, d := range sets.Datasets {
		values += d.Samples
	}
	return values, health.Disk, read("api/health", &health)
}

// look sends the requests of the page: the last ten minutes of each query, live answers of all
// queries, and from time to time the server's health and the newest diagnosis.
func (v *serving) look() error {
	read := func(path string) error {
		body, err := v.get(path)
		if err != nil {
			return err
		}
		defer body.Close()
		_, err = io.Copy(io.Discard, body)
		return err
	}
	for _, q := range pageAsks {
		const window = "api/ask?from=-10m&to=now&columns=600&top=500&q="
		if err := read(window + url.QueryEscape(q)); err != nil {
			return err
		}
	}
	body, err := v.get("api/live?top=500&q=" + strings.Join(escaped(pageAsks), "&q="))
	if err != nil {
		return err
	}
	// An event must come; the others are read as long as the server is there.
	events := bufio.NewReader(body)
	if line, err := events.ReadString('\n'); err != nil {
		return fmt.Errorf("live: after %q: %w", line, err)
	}
	go io.Copy(io.Discard, events) //nolint:errcheck // it ends with the server
	go func() {
		for range time.Tick(5 * time.Second) {
			if read("api/health") != nil || read("api/diagnosis") != nil {
				return // the server has ended
			}
		}
	}()
	return nil
}

func escaped(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = url.QueryEscape(s)
	}
	return out
}
