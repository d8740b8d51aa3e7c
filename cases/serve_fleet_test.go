package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fleetStep is the time between the samples that the hosts of TestServe/fleet send.
const fleetStep = 5 * time.Second

// fleetEngine is a time series database in a network namespace, which can be killed and started
// again.
type fleetEngine struct {
	t    *testing.T
	on   *Host
	args []string
	base string
	web  *http.Client
	said bytes.Buffer
	cmd  *exec.Cmd
}

// webOf returns a client whose connections start in the network namespace of a host.
func webOf(h *Host) *http.Client {
	dial := func(_ context.Context, network, address string) (c net.Conn, err error) {
		err = inside(h.NS, func() error {
			c, err = net.DialTimeout(network, address, 5*time.Second)
			return err
		})
		return c, err
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: 10 * time.Second}
}

// fleetEngines starts a Prometheus and a VictoriaMetrics on a host and waits for both.
func fleetEngines(t *testing.T, h *Host, address, dir string) []*fleetEngine {
	t.Helper()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte("global: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := []*fleetEngine{
		{base: "http://" + address + ":9090", args: []string{
			"prometheus", "--config.file=" + config, "--storage.tsdb.path=" + dir + "/prometheus",
			"--web.listen-address=" + address + ":9090", "--web.enable-remote-write-receiver",
			"--enable-feature=native-histograms", "--log.level=warn",
		}},
		{base: "http://" + address + ":8428", args: []string{
			"victoria-metrics", "-storageDataPath=" + dir + "/victoria",
			"-httpListenAddr=" + address + ":8428", "-search.latencyOffset=0s",
			"-memory.allowedBytes=200MB", "-loggerLevel=WARN",
		}},
	}
	for _, e := range all {
		e.t, e.on, e.web = t, h, webOf(h)
		e.start()
		t.Cleanup(func() {
			e.kill()
			if t.Failed() {
				t.Logf("%s:\n%s", e.args[0], e.said.String())
			}
		})
	}
	for _, e := range all {
		e.await()
	}
	return all
}

// start starts the engine and does not wait for it.
func (e *fleetEngine) start() {
	e.t.Helper()
	e.cmd = e.on.Command(e.args[0], e.args[1:]...)
	e.cmd.Stdout, e.cmd.Stderr = &e.said, &e.said
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
}

// kill kills Prometheus, which has a write-ahead log, and ends VictoriaMetrics, which acknowledges
// samples before it writes them: after a kill it would lack seconds that it has taken.
func (e *fleetEngine) kill() {
	signal := unix.SIGKILL
	if e.args[0] == "victoria-metrics" {
		signal = unix.SIGTERM
	}
	_ = e.cmd.Process.Signal(signal) // it may have ended
	_ = e.cmd.Wait()                 // killed, or waited for already
}

// await waits until the engine answers.
func (e *fleetEngine) await() {
	e.t.Helper()
	poll(e.t, e.args[0]+" answers", time.Minute, func() error {
		_, err := e.series(`up`)
		return err
	})
}

// poll calls f until it succeeds, or ends the test with its error.
func poll(t *testing.T, what string, within time.Duration, f func() error) {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(200 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s, within %v: %v", what, within, err)
		}
	}
}

// fleetSeries is one series of an engine with the times of its samples, in seconds.
type fleetSeries struct {
	Metric             map[string]string
	Values, Histograms [][]any
}

// times returns the times of all samples.
func (s *fleetSeries) times() (all []time.Time) {
	for _, v := range append(slices.Clone(s.Values), s.Histograms...) {
		all = append(all, time.UnixMilli(int64(v[0].(float64)*1000)))
	}
	return all
}

// name returns the name and labels of the series.
func (s *fleetSeries) name() string { return fmt.Sprint(s.Metric) }

// series returns what the engine has for a selector of samples.
func (e *fleetEngine) series(query string) ([]fleetSeries, error) {
	at := strconv.FormatFloat(float64(time.Now().UnixMilli())/1000, 'f', 3, 64)
	res, err := e.web.Get(e.base + "/api/v1/query?" +
		url.Values{"query": {query}, "time": {at}}.Encode())
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %w: %.300s", res.Status, errors.Join(err), body)
	}
	var out struct {
		Data struct{ Result []fleetSeries }
	}
	err = json.Unmarshal(body, &out)
	return out.Data.Result, err
}

// newest waits until the engine has a sample of each host after a time.
func (e *fleetEngine) newest(hosts []string, after time.Time) {
	e.t.Helper()
	poll(e.t, e.args[0]+" has new samples", 2*time.Minute, func() error {
		all, err := e.series(`culprit_sched_switches_total[5m]`)
		if err != nil {
			return err
		}
		have := map[string]time.Time{}
		for _, s := range all {
			if t := s.times(); len(t) > 0 {
				have[s.Metric["instance"]] = t[len(t)-1]
			}
		}
		for _, h := range hosts {
			if !have[h].After(after) {
				return fmt.Errorf("the newest sample of %s is of %v, want one after %v", h, have[h],
					after)
			}
		}
		return nil
	})
}

// gaps returns the gaps of series that have samples before a time and after another one, and the
// number of these series. missed reports whether a host itself has no tick in an interval.
func (e *fleetEngine) gaps(
	before, after time.Time, missed func(host string, from, to time.Time) bool,
) (gaps []string, compared int) {
	e.t.Helper()
	all, err := e.series(`{job="culprit"}[5m]`)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, s := range all {
		at := s.times()
		if len(at) < 4 || at[0].After(before) || at[len(at)-1].Before(after) ||
			comesAndGoes(s.Metric["__name__"]) || strings.Contains(s.name(), "loop") {
			continue // or it is sent each minute, or a device of other tests
		}
		compared++
		for i := 1; i < len(at); i++ {
			gap := at[i].Sub(at[i-1])
			if gap > fleetStep+time.Millisecond && !missed(s.Metric["instance"], at[i-1], at[i]) {
				gaps = append(gaps, fmt.Sprintf("%s from %v to %v", s.name(), at[i-1], at[i]))
			}
		}
	}
	return gaps, compared
}

// comesAndGoes reports whether a metric has rows only at some times: findings, and the states that
// some process has.
func comesAndGoes(metric string) bool {
	return metric == "culprit_finding" || metric == "culprit_processes"
}

// fleetHost returns what lets a server run on a host under a host name of its own.
func fleetHost(h *Host) []string {
	return []string{"ip", "netns", "exec", h.NS, "unshare", "--uts", "sh", "-c",
		`echo "$0" > /proc/sys/kernel/hostname && exec "$@"`, h.Name}
}

// serveFleet: three hosts send to a Prometheus and a VictoriaMetrics. Both engines are killed, one
// host's server restarts meanwhile, and no series has a gap. The page of either engine has the
// three hosts.
func serveFleet(t *testing.T, l *Lab, bin string) {
	needTools(t, "prometheus", "victoria-metrics", "unshare")
	centre := l.Host("centre")
	names := []string{"web1", "web2", "web3"}
	hosts := map[string]*Host{}
	var ports []string
	for i, name := range names {
		h, port := l.Host(name), fmt.Sprint("port", i)
		l.Veth(centre, port, h, "eth0")
		h.Address("eth0", fmt.Sprintf("10.23.0.%d/24", i+1))
		hosts[name], ports = h, append(ports, port)
	}
	centre.Bridge("br0", false, ports...)
	centre.Address("br0", "10.23.0.254/24")
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	engines := fleetEngines(t, centre, "10.23.0.254", l.Dir())
	run := func(name string) *recorder {
		args := []string{
			"--profile", "off", "--remote-write-each", fleetStep.String(), "--for", "5m",
		}
		for _, e := range engines {
			args = append(args, "--remote-write", e.base+"/api/v1/write")
		}
		if i := slices.Index(names, name); i < len(engines) {
			args = append(args, "--engine", engines[i].base)
		}
		h := hosts[name]
		r := serveIn(t, l, bin, filepath.Join(l.Dir(), name), fleetHost(h), args...)
		r.web = webOf(h)
		r.answers()
		return r
	}
	servers := map[string]*recorder{}
	for _, name := range names {
		servers[name] = run(name)
	}
	started := time.Now()
	for _, e := range engines {
		e.newest(names, started.Add(2*fleetStep))
	}
	killed := time.Now()
	for _, e := range engines {
		e.kill()
	}
	time.Sleep(2 * fleetStep) // the length of the outage is what is tested
	servers["web2"].kill()
	servers["web2"] = run("web2")
	time.Sleep(fleetStep)
	for _, e := range engines {
		e.start()
	}
	back := time.Now()
	for _, e := range engines {
		e.newest(names, back)
	}
	ticks := map[string]answer{}
	for name, r := range servers {
		ticks[name] = r.mustAsk("sched.forks", started.Truncate(time.Second), time.Now())
	}
	for _, e := range engines {
		gaps, n := e.gaps(killed, back, func(host string, from, to time.Time) bool {
			return ticks[host].missed(from, to)
		})
		t.Logf("%s: %d series of three hosts over %v without an engine, %d gaps", e.args[0], n,
			back.Sub(killed).Round(time.Second), len(gaps))
		if n < 300 || len(gaps) > 0 {
			t.Errorf("%s: %d series, gaps:\n%s", e.args[0], n, strings.Join(gaps, "\n"))
		}
	}
	for i := range engines {
		shown(t, servers[names[i]], names)
	}
}

// missed reports whether a step between two times has no tick of the host itself: it was too busy
// to measure.
func (a answer) missed(from, to time.Time) bool {
	for end := from.Add(fleetStep); end.Before(to); end = end.Add(fleetStep) {
		ticks := 0
		for c, e := range a.Elapsed {
			if at := a.at(c); e > 0 && at.After(end.Add(-fleetStep)) && !at.After(end) {
				ticks++
			}
		}
		if ticks > 0 {
			return false
		}
	}
	return true
}

// shown checks that the API of the page Hosts has the hosts, all reporting.
func shown(t *testing.T, r *recorder, names []string) {
	t.Helper()
	r.eventually("the page shows three hosts", 20*time.Second, func() error {
		var page struct {
			Reporting int
			Hosts     []struct {
				Name   string
				Values []*float64
			}
		}
		if err := r.get("api/hosts", &page); err != nil {
			return err
		}
		var have []string
		for _, h := range page.Hosts {
			if len(h.Values) > 0 && h.Values[0] != nil {
				have = append(have, h.Name)
			}
		}
		if slices.Sort(have); page.Reporting != 3 || !slices.Equal(have, names) {
			return fmt.Errorf("%d hosts report, with values: %v", page.Reporting, have)
		}
		return nil
	})
}
