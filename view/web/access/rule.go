package access

// Rule is what the requests of one method and path need.
type Rule struct {
	Method string
	Path   string // the pattern of http.ServeMux
	Need   Permission
	Proof  Proof
}

// Proof is what a browser must show beside the cookie of its session. Programs show their token
// instead of both.
type Proof uint8

// The proofs.
const (
	// NoProof is for requests that change nothing: the cookie is enough.
	NoProof Proof = iota
	// Header is the header X-Culprit, which no page of another site can send.
	Header
	// Secret is the header X-Culprit and the secret of the session.
	Secret
	// TokenOnly is for requests of programs: a session is refused, and no header but the token is
	// needed.
	TokenOnly
	// Password is TokenOnly, and the token may also be the password of basic authentication: for
	// programs that send nothing else. The user's name is ignored.
	Password
)

// PageFile is the pattern of the files of the page.
const PageFile = "/{file}"

// rules lists what each request needs. A request without a rule is refused.
//
// table: method, path, permission, proof
var rules = []Rule{
	{"GET", "/-/healthy", 0, NoProof},
	{"GET", "/-/ready", 0, NoProof},
	{"GET", "/again.js", 0, NoProof},
	{"POST", "/api/login", 0, Header},
	{"POST", "/api/logout", Metrics, Header}, // ends its own session, and nothing else

	{"GET", "/metrics", Metrics, NoProof},
	{"GET", "/api/v1/", Metrics, NoProof},
	{"POST", "/api/v1/", Metrics, NoProof}, // a long query in a form

	{"GET", "/", View, NoProof},
	{"GET", PageFile, View, NoProof},
	{"GET", "/api/health", View, NoProof},
	{"GET", "/api/catalogue", View, NoProof},
	{"GET", "/api/parse", View, NoProof},
	{"GET", "/api/ask", View, NoProof},
	{"GET", "/api/rank", View, NoProof},
	{"GET", "/api/questions", View, NoProof},
	{"GET", "/api/prices", View, NoProof},
	{"GET", "/api/live", View, NoProof},
	{"GET", "/api/tools", View, NoProof},
	{"GET", "/api/tool/{name}", View, NoProof},
	{"GET", "/api/tool/{name}/live", View, NoProof},
	{"GET", "/api/diagnosis", View, NoProof},
	{"GET", "/api/diagnosis/live", View, NoProof},
	{"GET", "/api/findings", View, NoProof},
	{"GET", "/api/hosts", View, NoProof},
	{"GET", "/api/hosts/curves", View, NoProof},
	{"GET", "/api/datasets", View, NoProof},
	{"GET", "/api/changes", View, NoProof},
	{"GET", "/api/changed", View, NoProof},
	{"GET", "/api/notes", View, NoProof},
	{"GET", "/api/worksheets", View, NoProof},
	{"GET", "/api/scripts", View, NoProof},
	{"GET", "/api/profiles", View, NoProof},
	{"GET", "/api/profile", View, NoProof},
	{"GET", "/api/profile/diff", View, NoProof},
	{"GET", "/api/profile/changes", View, NoProof},

	{"POST", "/mcp", View, TokenOnly},

	{"GET", "/api/sessions", View, Secret},
	{"POST", "/api/sessions/{id}/{action}", View, Secret},

	{"GET", "/debug/pprof/profile", Sample, Password},
	{"POST", "/api/profiles", Upload, Secret},
	{"POST", "/api/profiles/take", Sample, Secret},
	{"POST", "/api/datasets", Record, Secret},
	{"POST", "/api/datasets/{id}/{action}", Record, Secret},
	{"POST", "/api/notes", Record, Secret},
	{"POST", "/api/notes/{id}/{action}", Record, Secret},
	{"POST", "/api/worksheets", Record, Secret},
	{"POST", "/api/worksheets/{id}/{action}", Record, Secret},
	{"POST", "/api/scripts", Trace, Secret},
	{"POST", "/api/scripts/{id}/{action}", Trace, Secret},
	{"POST", "/api/scripts/complete", Trace, Header},
	{"POST", "/api/scripts/check", Trace, Header},
	{"POST", "/api/scripts/probes", Trace, Header},
}

// Rules lists what each request needs. The caller may change the slice.
func Rules() []Rule { return append([]Rule(nil), rules...) }

// RuleOf returns the rule of a method and a path. HEAD has the rule of GET. ok is false if there is
// none.
func RuleOf(method, path string) (rule Rule, ok bool) {
	if method == "HEAD" {
		method = "GET"
	}
	for _, r := range rules {
		if r.Method == method && r.Path == path {
			return r, true
		}
	}
	return Rule{}, false
}

// tokenOnly reports whether a browser's session is refused.
func (p Proof) tokenOnly() bool { return p == TokenOnly || p == Password }

// isOpen reports whether a request needs no permission.
func isOpen(method, path string) bool {
	r, ok := RuleOf(method, path)
	return ok && r.Need == 0
}
