package diagnose

// Attribution divides a shared resource among its users: what each takes of it, and how far the
// resource would be in use without each, and without those that a finding names.
type Attribution struct {
	Resource string `json:"resource"` // "busy time of sda"
	Unit     string `json:"unit"`     // of all numbers below
	Total    Number `json:"total"`    // in use now
	Limit    Number `json:"limit"`    // the threshold of the rule for Total
	// Users are the users that take or want most, at most attribute.MostUsers.
	Users      []ResourceUser `json:"users"`
	Others     int            `json:"others"`      // number of users that are not in Users
	OthersPart Number         `json:"others_part"` // what these take together
	Rest       Number         `json:"rest"`        // what no known user takes
	RestIs     string         `json:"rest_is"`     // what that may be
	// Named is how many of the first users must stop so that less than Limit is in use. 0: no three
	// are enough, or those that are take little: the sum of many is the cause, or Rest.
	Named int `json:"named"`
	// Without is the use without the Named users, or without the first three when Named is 0.
	Without Number `json:"without"`
	// WithoutLeast and WithoutMost are the bounds of Without where that is an estimate, and equal
	// to it where not. WithoutMost is unknown when nothing shows who would take what becomes free.
	WithoutLeast Number `json:"without_least"`
	WithoutMost  Number `json:"without_most"`

	Basis string `json:"basis"` // measured or estimated, and how
	Text  string `json:"text"`  // the result as a sentence
}

// ResourceUser is a user of a shared resource.
type ResourceUser struct {
	Name  string `json:"name"`            // "backup[123]", "unit backup.service (tar, gzip)"
	Group string `json:"group,omitempty"` // "unit backup.service", "container docker:3f2a1b4c5d6e"
	PID   int    `json:"pid,omitempty"`   // its most active process
	Part  Number `json:"part"`            // what it takes of the resource
	// Wants is what it would take if nobody else took anything: more than Part when it waits.
	Wants   Number `json:"wants"`
	Without Number `json:"without"` // the use without this user alone, likely
	// WithoutLeast and WithoutMost are its bounds, as in Attribution.
	WithoutLeast Number `json:"without_least"`
	WithoutMost  Number `json:"without_most"`
	// Statistic is a query of what the user takes, in the unit of that statistic.
	Statistic string `json:"statistic,omitempty"`
}
