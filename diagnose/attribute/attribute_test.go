package attribute

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
)

// resource returns a disk that is busy for total of the time, with the rule's threshold at 0.9.
func resource(total float64, users ...User) *Resource {
	return &Resource{Name: "busy time of sda", Unit: "ratio", Total: total, Limit: 0.9, Least: 0.3,
		Users: users, Amount: phrase.Percent, RestIs: "metadata",
		State: func(use float64) string { return "sda would be busy " + phrase.Percent(use) }}
}

func TestDivide(t *testing.T) {
	for _, tt := range []struct {
		name    string
		of      *Resource
		named   int
		without float64
		text    string
	}{
		{"one", resource(0.97, User{Name: "ship", Part: 0.28}, User{Name: "backup", Part: 0.66}), 1,
			0.31, "Without backup sda would be busy 31 % (now 97 %)."},
		{"two that wait", resource(0.97, User{Name: "tar", Part: 0.5, Wants: 0.95},
			User{Name: "gzip", Part: 0.4, Wants: 0.92}), 2, 0.07,
			"Several together: without tar (50 %) and gzip (40 %) sda would be busy 7 % (now " +
				"97 %); without the first alone 97 %. 7 % is metadata."},
		{"one that waits", resource(0.97, User{Name: "tar", Part: 0.5, Wants: 2},
			User{Name: "gzip", Part: 0.4}), 1, 0.47,
			"Without tar sda would be busy 47 % (now 97 %). 7 % is metadata."},
		{"many", resource(1, User{Name: "a", Part: 0.26, Wants: 1}, User{Name: "b", Part: 0.25,
			Wants: 1}, User{Name: "c", Part: 0.24, Wants: 1}, User{Name: "d", Part: 0.23,
			Wants: 1}), 0, 1, "Many together: without the three largest, a (26 %), b (25 %) and " +
			"c (24 %), sda would be busy 100 % (now 100 %)."},
		{"small ones", resource(0.91, User{Name: "a", Part: 0.05}, User{Name: "b", Part: 0.04},
			User{Name: "c", Part: 0.03}, User{Name: "d", Part: 0.02}), 0, 0.79,
			"Many together: without the three largest, a (5 %), b (4 %) and c (3 %), sda would " +
				"be busy 79 % (now 91 %). 77 % is metadata."},
		{"unknown", resource(0.95, User{Name: "a", Part: 0.02}), 0, 0.93, "No known user is the " +
			"cause: without a sda would be busy 93 % (now 95 %). 93 % is metadata."},
		{"more than the total", resource(0.9, User{Name: "a", Part: 3}, User{Name: "b", Part: 1}),
			1, 0.225, "Without a sda would be busy 22 % (now 90 %)."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := Divide(tt.of).Report()
			if a.Named != tt.named || math.Abs(float64(a.Without)-tt.without) > 1e-6 ||
				a.Text != tt.text {
				t.Errorf("named %d, without %v: %s\nwant %d, %v: %s", a.Named, a.Without, a.Text,
					tt.named, tt.without, tt.text)
			}
		})
	}
}

// TestLeast: users that take less than the least share together are not named.
func TestLeast(t *testing.T) {
	for _, tt := range []struct {
		part  float64
		named int
	}{{0.28, 0}, {0.31, 1}} {
		d := Divide(resource(1, User{Name: "a", Part: tt.part}, User{Name: "b", Part: 0.1}))
		if d.Named != tt.named {
			t.Errorf("a part of %v: named %d, want %d", tt.part, d.Named, tt.named)
		}
	}
}

// TestNotSaturated: below its threshold a resource has no attribution, nor without users.
func TestNotSaturated(t *testing.T) {
	for name, r := range map[string]*Resource{
		"below":   resource(0.89, User{Name: "a", Part: 0.5}),
		"nobody":  resource(1),
		"nothing": resource(1, User{Name: "a", Part: 0}, User{Name: "b", Part: math.NaN()}),
		"NaN":     resource(math.NaN(), User{Name: "a", Part: 1}),
		"Inf":     resource(math.Inf(1), User{Name: "a", Part: 1}),
	} {
		if a := Divide(r).Report(); a != nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// someUsers returns users with random parts and wants, some of them impossible.
func someUsers(r *rand.Rand) []User {
	var users []User
	for n := range r.IntN(12) {
		u := User{Name: string(rune('a' + n)), PID: r.IntN(5), Part: r.Float64() / 4}
		switch r.IntN(8) {
		case 0:
			u.Part = math.NaN()
		case 1:
			u.Part = math.Inf(1)
		case 2:
			u.Part = -1
		case 3:
			u.Part = 0.125 // as another one
		}
		if r.IntN(2) == 0 {
			u.Wants = r.Float64() * 2
		}
		users = append(users, u)
	}
	return users
}

// TestInvariants: parts and rest sum to the total, nothing exceeds it, fewer users leave no less,
// and the order of the users does not matter.
func TestInvariants(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 11))
		of := resource(0.9+r.Float64()/5, someUsers(r)...)
		d := Divide(of)
		sum := d.Rest
		for k := range d.Order {
			sum += d.parts[k]
			alone := d.without(d.Order[k]).Likely
			if !(alone >= 0 && alone <= d.Total+1e-12) || alone < d.Total-d.wants[k]-1e-9 {
				t.Fatalf("seed %d: %v without user %d of %v", seed, alone, k, d.Total)
			}
		}
		if math.Abs(sum-d.Total) > 1e-9 {
			t.Fatalf("seed %d: %v of %v", seed, sum, d.Total)
		}
		for n := 1; n <= len(d.Order); n++ {
			if d.WithoutFirst(n) > d.WithoutFirst(n-1) || d.WithoutFirst(n) < 0 ||
				!(d.Share(n) >= 0 && d.Share(n) <= 1) {
				t.Fatalf("seed %d: without %d %v, share %v", seed, n, d.WithoutFirst(n), d.Share(n))
			}
		}
		a := d.Report()
		r.Shuffle(len(of.Users), func(i, j int) {
			of.Users[i], of.Users[j] = of.Users[j], of.Users[i]
		})
		if b := Divide(of).Report(); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: %+v\nin another order %+v", seed, a, b)
		}
	}
}

// TestSmallestSet: no smaller set of users than the named one takes the resource below the limit.
func TestSmallestSet(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 12))
		of := resource(1, someUsers(r)...)
		of.Least = 0
		d := Divide(of)
		for set := range 1 << len(d.Order) {
			var stopped []int
			for k := range d.Order {
				if set>>k&1 == 1 {
					stopped = append(stopped, d.Order[k])
				}
			}
			size := len(stopped)
			if d.without(stopped...).Likely < of.Limit && size <= MostNamed &&
				(d.Named == 0 || size < d.Named) {
				t.Fatalf("seed %d: %d users are enough, named %d", seed, size, d.Named)
			}
		}
	}
}

// TestReportIsBounded: a report lists few users; the others are summed.
func TestReportIsBounded(t *testing.T) {
	var users []User
	for n := range 1000 {
		users = append(users, User{Name: strings.Repeat("x", n%7), PID: n + 1, Part: 0.001})
	}
	a := Divide(resource(1, users...)).Report()
	if len(a.Users) != MostUsers || a.Others != 995 ||
		math.Abs(float64(a.OthersPart)-0.995) > 1e-6 || a.Rest > 1e-6 {
		t.Errorf("%d users, %d others with %v, rest %v", len(a.Users), a.Others, a.OthersPart,
			a.Rest)
	}
}

// TestEstimate: an estimate is stated as a range, or with what is certain, within the bounds of the
// parts.
func TestEstimate(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   Estimate
		want Estimate
		text string
	}{
		{"range", Estimate{0.45, 0.62, 0.83}, Estimate{0.45, 0.62, 0.83},
			"Without a sda is used about 62 % (45 % to 83 % is possible; now 97 %)."},
		{"narrow", Estimate{0.45, 0.46, 0.49}, Estimate{0.45, 0.46, 0.49},
			"Without a sda is used 46 % (now 97 %)."},
		{"unknown", Estimate{0.45, 0.8, math.NaN()}, Estimate{0.45, 0.45, math.NaN()},
			"Without a sda is used at least 45 % (now 97 %)."},
		{"below the rest", Estimate{0.1, 0.2, 0.3}, Estimate{0.37, 0.37, 0.37},
			"Without a sda is used 37 % (now 97 %)."},
		{"above the total", Estimate{0.45, 2, 3}, Estimate{0.45, 0.97, 0.97},
			"No known user is the cause: without a sda is used about 97 % (45 % to 97 % is " +
				"possible; now 97 %)."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := resource(0.97, User{Name: "a", Part: 0.6})
			r.RestIs = ""
			r.Estimate = func(map[int]bool) Estimate { return tt.of }
			r.StateOf = func(amount string) string { return "sda is used " + amount }
			a := Divide(r).Report()
			got := [...]diagnose.Number{a.WithoutLeast, a.Without, a.WithoutMost}
			for i, v := range []float64{tt.want.Least, tt.want.Likely, tt.want.Most} {
				if g := float64(got[i]); math.Abs(g-v) > 1e-9 || (g != g) != (v != v) {
					t.Errorf("%v, want %v", got, tt.want)
				}
			}
			if a.Text != tt.text {
				t.Errorf("%s\nwant %s", a.Text, tt.text)
			}
		})
	}
}
