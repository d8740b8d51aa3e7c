package access

import (
	"fmt"
	"slices"
	"strings"

	"culprit/measure"
)

// Permission is one kind of request. A role is a set of them.
type Permission uint16

// What a request may need. A request that needs no permission is open to all.
const (
	Metrics Permission = 1 << iota // read metrics without the fields of HiddenFields
	View                           // read everything that is recorded
	Upload                         // add profiles of files
	Sample                         // sample the CPUs of the machine
	Record                         // change what is recorded
	Trace                          // run D programs: as root, they read all memory
)

// Role is what the owner of a token may do. 0 is no role.
type Role uint8

// The roles. Each includes RoleMetrics; RoleTrace includes all.
const (
	RoleMetrics Role = iota + 1
	RoleView
	RoleProfile
	RoleRecord
	RoleTrace
)

// roles has the name of each role, its permissions, and what they are worth.
//
// table: roles, in the order of their numbers
var roles = [...]struct {
	name  string
	may   Permission
	worth string
}{
	{"metrics", Metrics, "scrape metrics, without command lines, peers, stacks and users"},
	{"view", Metrics | View, "see all that is recorded"},
	{"profile", Metrics | View | Upload | Sample, "view, and sample stacks and upload profiles"},
	{"record", Metrics | View | Upload | Record, "view, and change what is recorded"},
	{
		"trace", Metrics | View | Upload | Sample | Record | Trace,
		"everything, and D programs: as good as root",
	},
}

// String returns the name of the role; "nothing" for no role.
func (r Role) String() string {
	if r < 1 || int(r) > len(roles) {
		return "nothing"
	}
	return roles[r-1].name
}

// May reports whether the role includes all permissions of need.
func (r Role) May(need Permission) bool {
	return need == 0 || r >= 1 && int(r) <= len(roles) && roles[r-1].may&need == need
}

// Worth returns what the role can do, as a phrase; "" for no role.
func (r Role) Worth() string {
	if r < 1 || int(r) > len(roles) {
		return ""
	}
	return roles[r-1].worth
}

// Roles lists the names of the roles, least first.
func Roles() []string {
	var all []string
	for _, r := range roles {
		all = append(all, r.name)
	}
	return all
}

// ParseRole returns the role of a name. The error names the roles.
func ParseRole(name string) (Role, error) {
	if i := slices.Index(Roles(), name); i >= 0 {
		return Role(i + 1), nil
	}
	hint := "the roles are " + strings.Join(Roles(), ", ")
	if near := measure.Nearest(name, Roles()); near != "" {
		hint = "did you mean " + near + "?"
	}
	return 0, fmt.Errorf("unknown role %q: %s", name, hint)
}

// least returns the first role that includes the permissions.
func least(need Permission) Role {
	for r := RoleMetrics; r < RoleTrace; r++ {
		if r.May(need) {
			return r
		}
	}
	return RoleTrace
}
