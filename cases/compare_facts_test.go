package cases

import (
	"context"
	"math"
	"testing"
	"time"
)

func TestLinkSaysWhatTheCableIs(t *testing.T) {
	if quick() {
		return
	}
	if why := needTun(); why != "" {
		t.Skipf("needs: %s", why)
	}
	l := open(t)
	bin := needProgram(t)
	src, _ := pair(l, taps(l, Wire{Mbit: 100, Best: 1000}))
	src.MAC("eth0", "02:00:00:00:00:01")
	sc := &Scene{Lab: l, Where: src}
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := output(ctx, sc.on(bin, "link", "--json"))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := view(out)
	if err != nil {
		t.Fatal(err)
	}
	for column, want := range map[string]any{"speed_bits_per_s": 1e8, "duplex": "full", "mac": "02:00:00:00:00:01", "mtu_bytes": 1500.0, "driver": "tun"} {
		for _, row := range ours.Rows {
			if row["device"] == "eth0" && row[column] != want {
				t.Errorf("%s of eth0 is %v, want %v", column, row[column], want)
			}
		}
	}
	if math.IsNaN(ours.number("device", "eth0", "speed_bits_per_s")) {
		t.Errorf("no eth0 with a speed in %s", out)
	}
}

func TestCachesCountTheTable(t *testing.T) {
	if quick() {
		return
	}
	l := open(t)
	bin := needProgram(t)
	par := l.Host("par")
	par.Set("net/ipv4/tcp_child_ehash_entries", "1024")
	box := l.HostWithin(par, "box")
	sc := &Scene{Lab: l, Where: box}
	sc.load(
		Program{
			Name:    "old-flows",
			Act:     "fill",
			On:      box,
			Args:    []string{"-n", "5000"},
			Patient: true,
		},
	)
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	agree(t, func(ctx context.Context) ([]pairing, error) {
		out, err := output(ctx, sc.on(bin, "caches", "--json", "1", "1"))
		if err != nil {
			return nil, err
		}
		ours, err := view(out)
		if err != nil {
			return nil, err
		}
		get := func(column string) float64 { return ours.number("cache", "tcp-established", column) }
		return []pairing{
			{"entries", get("entries"), 5000, 0.001, 0},
			{"buckets", get("buckets"), 1024, 0, 0},
			{"entries a bucket", get("entries_per_bucket"), 5000. / 1024, 0.001, 0},
		}, nil
	})
}
