package main

import (
	"strings"
	"testing"

	"culprit/measure"
	"culprit/store"
)

// recordTraffic records 60 s from 2023-11-14 22:13:20 UTC: the bytes per second of eth0 and eth1.
// The rate of eth0 is before in the first 30 s and after in the others.
func recordTraffic(t *testing.T, before, after float64) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := store.Open(archivePath(dir), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q := measure.Query{Stat: "net.device.bytes", By: []string{"device"}, Step: measure.Second}
	id, err := s.Save(measure.Dataset{
		Query: q, State: measure.Recording, Created: 1,
		Stat: measure.Stat{
			ID: q.Stat, Kind: measure.Delta, Unit: measure.Bytes, Fold: measure.Sum,
			Fields: []measure.Field{{Name: "device", Type: measure.Word}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range measure.Time(60) {
		at := measure.Time(17e17) + (i+1)*1e9
		rate := before
		if i >= 30 {
			rate = after
		}
		err := s.Append(at, []uint32{id}, []*measure.Batch{{
			Stat: q.Stat, By: q.By, Over: measure.Interval{Start: at - 1e9, End: at},
			Labels: []string{"eth0", "eth1"}, Keys: []measure.Label{0, 1},
			Values: []float64{rate * (1 + 0.001*float64(i%7)), 3e6},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestChanged(t *testing.T) {
	slow, fast := recordTraffic(t, 90e6, 11e6), recordTraffic(t, 90e6, 90e6)
	const from, to = "2023-11-14T22:13:55Z", "2023-11-14T22:14:15Z"
	for _, tt := range []struct{ name, line, want string }{
		{"another time", "--dir " + slow + " --against 2023-11-14T22:13:25Z..2023-11-14T22:13:45Z",
			"90.3 MB/s -> 11 MB/s (88 % less)"},
		{"the time before", "--dir " + fast, "Nothing changed beyond noise"},
		{"another machine", "--dir " + slow + " --against-dir " + fast, "90.3 MB/s -> 11 MB/s"},
		{"the other way round", "--dir " + fast + " --against-dir " + slow, "11 MB/s -> 90.3 MB/s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			line := append([]string{"changed", "--from", from, "--to", to},
				strings.Fields(tt.line)...)
			status, out, errs := call(t, line...)
			if status != 0 || !strings.Contains(string(out), tt.want) {
				t.Errorf("status %d: %s%s; want %s", status, out, errs, tt.want)
			}
			if strings.Contains(tt.want, "->") != strings.Contains(string(out),
				`net.device.bytes where device = "eth0"`) {
				t.Errorf("the query: %s", out)
			}
			status, out, errs = call(t, append(line, "--json")...)
			if status != 0 || checkSchema(t, "changes", tt.name, out) != 1 {
				t.Errorf("status %d: %s%s", status, out, errs)
			}
		})
	}
	for _, tt := range []struct{ line, want string }{
		{"", "give --from"},
		{"--from -5m --against 13:00", "give two times as BEGIN..END"},
		{"--from -5m --against-dir a --against-server b", "exclude each other"},
		{"--from -5m --against-host a", "--against-host needs --engine"},
		{"--from -5m --engine http://h --against-host a --against-dir b", "excludes"},
		{"--from 2023-11-14T22:14:13Z --to 2023-11-14T22:14:15Z --dir " + slow, "too short"},
		{"--from -5m --dir " + slow, "held is"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			status, _, errs := call(t, append([]string{"changed"}, strings.Fields(tt.line)...)...)
			if status != 2 || !strings.Contains(string(errs), tt.want) {
				t.Errorf("status %d: %s, want %s", status, errs, tt.want)
			}
		})
	}
}
