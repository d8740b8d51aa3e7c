package alert

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/diagnose"
	"culprit/measure"
)

// startAlertmanager starts Debian's Alertmanager, which notifies hook. It returns its address.
func startAlertmanager(t *testing.T, hook string) string {
	t.Helper()
	program, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		t.Skip("needs: tool prometheus-alertmanager")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "alertmanager.yml")
	err = os.WriteFile(config, []byte(`
route: {receiver: hook, group_by: [instance], group_wait: 1s, group_interval: 1s}
receivers: [{name: hook, webhook_configs: [{url: "`+hook+`", send_resolved: true}]}]
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "--config.file="+config, "--storage.path="+dir,
		"--web.listen-address="+at, "--cluster.listen-address=")
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
		if b, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("Alertmanager: %s", b)
		}
	})
	return "http://" + at
}

// eventually waits for a condition, up to 30 s.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestAlertmanager sends a finding to a real Alertmanager, that begins before it runs: it has the
// alert, notifies, and ends it when the finding ends.
func TestAlertmanager(t *testing.T) {
	hook := newInbox(t)
	address := startAlertmanager(t, hook.URL)
	s := NewStream(nil)
	m, err := NewAlertmanager(address, s, &Sender{Instance: "db1", Version: "1.0", Page: "http://db1:7410/"})
	if err != nil {
		t.Fatal(err)
	}
	m.backoff.Min, m.backoff.Max = 50*time.Millisecond, 50*time.Millisecond
	start := measure.Time(time.Now().UnixNano()).Add(-measure.Minute)
	bad := finding("link-saturated/eth0", diagnose.High, "iperf3 \"\\\n\x1b ü")
	bad.Culprit.Kind = ""
	s.Observe(start, report(start, "", bad, finding("link-saturated/eth1", diagnose.Medium, "curl")))
	run(t, m.Run)

	type listed struct {
		Labels, Annotations map[string]string
		StartsAt, EndsAt    time.Time
		GeneratorURL        string
	}
	alerts := func() (map[string]listed, error) {
		res, err := http.Get(address + "/api/v2/alerts")
		if err != nil {
			return nil, err
		}
		defer res.Body.Close() //nolint:errcheck // it was read
		var all []listed
		if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
			return nil, err
		}
		out := map[string]listed{}
		for _, a := range all {
			out[a.Labels["finding"]] = a
		}
		return out, nil
	}
	var all map[string]listed
	eventually(t, func() (err error) {
		if all, err = alerts(); err == nil && len(all) != 2 {
			err = fmt.Errorf("%d alerts, want 2; trouble %q", len(all), m.Trouble())
		}
		return err
	})
	a := all["link-saturated/eth0"]
	wantMap(t, "label", a.Labels, map[string]string{
		"alertname": "link-saturated", "rule": "link-saturated", "finding": "link-saturated/eth0",
		"culprit": `iperf3 "\?? ü`, "severity": "high", "instance": "db1", "job": "culprit",
	})
	if !strings.Contains(a.Annotations["evidence"], "\nthe queue drops") ||
		a.Annotations["fix"] != "tc qdisc add" || a.GeneratorURL != "http://db1:7410/" {
		t.Errorf("%+v", a)
	}
	if want := start.Add(expires).AsTime(); a.EndsAt.Sub(want).Abs() > time.Millisecond {
		t.Errorf("it expires at %v, want %v", a.EndsAt, want)
	}
	wantNotified(t, hook, map[string]string{
		"link-saturated/eth0": "firing", "link-saturated/eth1": "firing",
	})

	now := start.Add(measure.Minute)
	s.Observe(now, report(now, "", bad))
	eventually(t, func() error {
		all, err := alerts()
		if _, still := all["link-saturated/eth1"]; err == nil && (still || len(all) != 1) {
			err = fmt.Errorf("after the end of a finding there are %v", all)
		}
		return err
	})
	wantNotified(t, hook, map[string]string{
		"link-saturated/eth0": "firing", "link-saturated/eth1": "resolved",
	})
	if m.Trouble() != "" {
		t.Error(m.Trouble())
	}
}

// wantNotified waits until Alertmanager has sent the status of each finding.
func wantNotified(t *testing.T, b *inbox, want map[string]string) {
	t.Helper()
	eventually(t, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		got := map[string]string{}
		for _, body := range b.bodies {
			var n struct {
				Alerts []struct {
					Status string
					Labels map[string]string
				}
			}
			if err := json.Unmarshal(body, &n); err != nil {
				return err
			}
			for _, a := range n.Alerts {
				got[a.Labels["finding"]] = a.Status
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("notified of %v, want %v", got, want)
		}
		return nil
	})
}
