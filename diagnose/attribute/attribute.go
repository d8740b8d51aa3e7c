package attribute

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
)

// Bounds of an attribution.
const (
	// MostNamed is the most users that are the cause together. More are "many".
	MostNamed = 3
	// MostUsers is the most users in a report.
	MostUsers = 5
)

// User is a user of a resource, with numbers in the unit of the resource.
type User struct {
	Name  string // as in a sentence: "backup[123]"
	Group string // the unit or container that all its processes are in; "" none, or several
	PID   int    // its most active process; 0: none is known
	Part  float64
	// Wants is what it would take alone. Less than Part, or NaN: the same as Part.
	Wants     float64
	Statistic string // a query of what it takes; "": none
}

// Resource is a shared resource that is saturated.
type Resource struct {
	Name  string // "busy time of sda"
	Unit  string
	Total float64
	Limit float64 // the threshold of the rule for Total
	Least float64 // users that take a smaller share of Total together are not the cause
	Users []User
	// State returns the use as the end of a sentence: "sda would be busy 31 % of the time".
	State func(use float64) string
	// Amount formats an amount of the resource: "31 %".
	Amount func(use float64) string
	RestIs string // what the part of no known user may be
	Basis  string // measured or estimated, and how
	// Estimate returns the use without users, those whose index is in stopped, and StateOf that use
	// as the end of a sentence, with an amount as "at least 31 %" or "about 31 %". nil: the use is
	// by the formula of this package.
	Estimate func(stopped map[int]bool) Estimate
	StateOf  func(amount string) string
}

// Estimate is the use of a resource without some of its users.
type Estimate struct {
	Least, Likely float64
	Most          float64 // NaN: unknown; then Likely is Least
}

// Result is an attribution with all its users.
type Result struct {
	// Order has the indices of Resource.Users, those that want most first. Users without a part
	// are left out.
	Order []int
	Named int     // how many of the first are the cause together; 0: no MostNamed are enough
	Total float64 // of the resource; 0 when it is not known
	Rest  float64 // what no known user takes

	parts, wants []float64 // in the order of Order
	unserved     float64
	resource     *Resource
}

// Divide divides a resource among its users. The result does not depend on the order of the users.
// Parts that sum to more than the total are reduced in proportion: different counters may deviate.
func Divide(r *Resource) *Result {
	d := &Result{resource: r}
	if !(r.Total > 0) || math.IsInf(r.Total, 0) {
		return d
	}
	d.Total = r.Total
	sum := 0.0
	for i := range r.Users {
		if p := r.Users[i].Part; p > 0 && !math.IsInf(p, 0) {
			d.Order = append(d.Order, i)
		}
	}
	slices.SortFunc(d.Order, func(i, j int) int { return compare(&r.Users[i], &r.Users[j]) })
	for _, i := range d.Order {
		sum += r.Users[i].Part
	}
	scale := 1.0
	if sum > r.Total {
		scale = r.Total / sum
	}
	d.Rest = r.Total
	for _, i := range d.Order {
		part, wants := r.Users[i].Part*scale, r.Users[i].wants()*scale
		d.parts, d.wants = append(d.parts, part), append(d.wants, wants)
		d.unserved += wants - part
		d.Rest -= part
	}
	d.Rest = max(d.Rest, 0)
	for n := 1; n <= min(MostNamed, len(d.Order)); n++ {
		if d.WithoutFirst(n) < r.Limit {
			if d.Share(n) >= r.Least {
				d.Named = n
			}
			break
		}
	}
	return d
}

// compare orders users: those that want most first, then those that take most, then by process.
func compare(a, b *User) int {
	return cmp.Or(cmp.Compare(round(b.wants()), round(a.wants())), cmp.Compare(b.Part, a.Part),
		cmp.Compare(a.PID, b.PID), strings.Compare(a.Name, b.Name))
}

// wants returns what a user would take alone, at least its part.
func (u *User) wants() float64 {
	if u.Wants > u.Part && !math.IsInf(u.Wants, 0) {
		return u.Wants
	}
	return u.Part
}

// WithoutFirst returns the likely use of the resource without the first n users of Order.
func (d *Result) WithoutFirst(n int) float64 {
	return d.without(d.Order[:min(n, len(d.Order))]...).Likely
}

// without returns the use of the resource without users, by their indices in Resource.Users.
func (d *Result) without(users ...int) Estimate {
	stopped := map[int]bool{}
	for _, i := range users {
		stopped[i] = true
	}
	parts, wants := 0.0, 0.0
	for k, i := range d.Order {
		if stopped[i] {
			parts += d.parts[k]
			wants += d.wants[k]
		}
	}
	if d.resource == nil || d.resource.Estimate == nil || len(stopped) == 0 {
		use := min(d.Total, max(0, d.Total+d.unserved-wants))
		return Estimate{use, use, use}
	}
	e := d.resource.Estimate(stopped)
	e.Least = min(d.Total, max(e.Least, d.Total-parts, 0)) // no other user takes less than now
	if e.Most == e.Most {
		e.Most = min(d.Total, max(e.Most, e.Least))
	}
	if e.Most != e.Most {
		e.Likely = e.Least
	}
	e.Likely = min(d.Total, max(e.Likely, e.Least))
	if e.Likely > e.Most {
		e.Likely = e.Most
	}
	return e
}

// Share returns the share of the first n users in the total, 0..1; NaN when it is not known.
func (d *Result) Share(n int) float64 {
	if d.Total == 0 || n <= 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, p := range d.parts[:min(n, len(d.parts))] {
		sum += p
	}
	return min(sum/d.Total, 1)
}

// Names returns the first n users with their shares of the total: "tar[7] 48 %, gzip[9] 40 %".
func (d *Result) Names(n int) string {
	var names []string
	for k, i := range d.Order[:min(n, len(d.Order))] {
		names = append(names, d.resource.Users[i].Name+" "+phrase.Percent(d.parts[k]/d.Total))
	}
	return strings.Join(names, ", ")
}

// Report returns the attribution of a finding; nil when no user is known, and when the resource is
// below the threshold with all of them.
func (d *Result) Report() *diagnose.Attribution {
	r := d.resource
	if len(d.Order) == 0 || d.Total < r.Limit {
		return nil
	}
	without := d.without(d.Order[:d.shown()]...)
	a := &diagnose.Attribution{Resource: r.Name, Unit: r.Unit, Total: round(d.Total),
		Limit: round(r.Limit), Rest: round(d.Rest), RestIs: r.RestIs, Named: d.Named,
		Without: round(without.Likely), WithoutLeast: round(without.Least),
		WithoutMost: round(without.Most), Basis: r.Basis, Text: d.text(),
		Users: []diagnose.ResourceUser{}}
	others := 0.0
	for n, i := range d.Order {
		u := &r.Users[i]
		if n >= MostUsers {
			a.Others++
			others += d.parts[n]
			continue
		}
		alone := d.without(i)
		a.Users = append(a.Users, diagnose.ResourceUser{Name: u.Name, Group: u.Group, PID: u.PID,
			Part: round(d.parts[n]), Wants: round(d.wants[n]),
			Without: round(alone.Likely), WithoutLeast: round(alone.Least),
			WithoutMost: round(alone.Most), Statistic: u.Statistic})
	}
	a.OthersPart = round(others)
	return a
}

// shown returns how many of the first users the sentence is about.
func (d *Result) shown() int {
	if d.Named > 0 {
		return d.Named
	}
	return min(MostNamed, len(d.Order))
}

// text returns the attribution as one or two sentences.
func (d *Result) text() string {
	r, n := d.resource, d.shown()
	var names []string
	for k, i := range d.Order[:n] {
		name := r.Users[i].Name
		if n > 1 {
			name += " (" + r.Amount(d.parts[k]) + ")"
		}
		names = append(names, name)
	}
	use := r.State(d.WithoutFirst(n))
	amount, between := d.inWords(d.without(d.Order[:n]...))
	if r.Estimate != nil {
		use = r.StateOf(amount)
	}
	now := " (" + between + "now " + r.Amount(d.Total) + ")"
	var text string
	switch {
	case d.Named == 1:
		text = "Without " + names[0] + " " + use + now + "."
	case d.Named > 1:
		first, _ := d.inWords(d.without(d.Order[0]))
		text = "Several together: without " + phrase.List(names) + " " + use + now +
			"; without the first alone " + first + "."
	case len(d.Order) <= MostNamed:
		text = "No known user is the cause: without " + phrase.List(names) + " " + use + now + "."
	default:
		text = "Many together: without the " + count(n) + " largest, " + phrase.List(names) +
			", " + use + now + "."
	}
	if d.Rest >= RestNoted*d.Total && r.RestIs != "" {
		text += " " + r.Amount(d.Rest) + " is " + r.RestIs + "."
	}
	return text
}

// inWords returns an estimate as the amount of a sentence, "31 %", "at least 31 %" or "about 31 %",
// and in the last case the range, as the begin of a list: "20 % to 50 %; ".
func (d *Result) inWords(e Estimate) (amount, between string) {
	r := d.resource
	switch {
	case e.Most != e.Most && e.Least < (1-exactTo)*d.Total:
		return "at least " + r.Amount(e.Least), ""
	case e.Most-e.Least > exactTo*d.Total:
		return "about " + r.Amount(e.Likely),
			r.Amount(e.Least) + " to " + r.Amount(e.Most) + " is possible; "
	}
	return r.Amount(e.Likely), ""
}

// exactTo is the share of the total up to which a range is as good as its likely value.
const exactTo = 0.05

// RestNoted is the share of the total from which on the sentence names the part of no known user.
const RestNoted = 0.05

func count(n int) string { return []string{"no", "one", "two", "three"}[n] }

// round returns v with six significant digits.
func round(v float64) diagnose.Number {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return diagnose.Number(v)
}
