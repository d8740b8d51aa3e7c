package remote

import (
	"culprit/measure"
)

// Role says what a request may do: it is that of the token of the asker, or of the server itself.
// It is part of each request, and both ends check it. 0 may do nothing.
type Role uint8

// The roles, as those of tokens.
const (
	RoleMetrics Role = iota + 1 // read metrics
	RoleView                    // read what is recorded
	RoleProfile                 // also sample the CPUs
	RoleRecord                  // also run sources
	RoleTrace                   // also run D scripts
)

// roleNames are the names of the roles.
// table: in the order of their numbers
var roleNames = [...]string{"none", "metrics", "view", "profile", "record", "trace"}

// String returns the name of the role.
func (r Role) String() string {
	if int(r) >= len(roleNames) {
		r = 0
	}
	return roleNames[r]
}

// RoleNamed returns the role of a name; 0 for any other text.
func RoleNamed(name string) Role {
	for r := RoleMetrics; r <= RoleTrace; r++ {
		if r.String() == name {
			return r
		}
	}
	return 0
}

// mayRun, mayScript and maySample return a *measure.Denied unless the role includes the request.
func (r Role) mayRun() error {
	return r.check("run a source", RoleRecord, RoleTrace)
}

func (r Role) mayScript() error {
	return r.check("run a D script", RoleTrace)
}

func (r Role) maySample() error {
	return r.check("sample the CPUs", RoleProfile, RoleTrace)
}

// check returns a *measure.Denied unless the role is one of the list.
func (r Role) check(doing string, list ...Role) error {
	for _, one := range list {
		if r == one {
			return nil
		}
	}
	return &measure.Denied{Doing: doing, Needs: "the role " + list[0].String()}
}
