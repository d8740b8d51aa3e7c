package access

import (
	"context"
	"net/http"
)

// Caller is who sends a request.
type Caller struct {
	Name string // of the token; "": the server's own token, or a trusted listener
	Role Role
	// Trusted means that the peer of the connection may do everything: it is of the same user, or
	// root.
	Trusted bool

	way     string   // page or command line
	session *session // nil: the request has a token, or is trusted
}

// AuditName returns the caller as the audit log has it.
func (c Caller) AuditName() string {
	if c.Name == "" {
		return c.way
	}
	return c.way + " (" + c.Name + ")"
}

// May reports whether the role of the caller includes the permissions.
func (c Caller) May(need Permission) bool { return c.Role.May(need) }

// SessionID returns the ID of the caller's session; "" for a program.
func (c Caller) SessionID() string {
	if c.session == nil {
		return ""
	}
	return c.session.ID
}

// Sees reports whether the caller may list and end a session: its own and those of the same token.
// The owner of the server sees all.
func (c Caller) Sees(s Session) bool {
	return c.Trusted || c.known() && (c.Name == "" || c.Name == s.Token)
}

// known reports whether the caller is one at all.
func (c Caller) known() bool { return c.Role != 0 }

// TrustedCaller returns the caller of a listener whose peers may do everything.
func TrustedCaller() Caller {
	return Caller{Role: RoleTrace, way: "command line", Trusted: true}
}

// callerKey is the key of the caller in a request's context.
type callerKey struct{}

// With returns the request with the caller in its context.
func With(r *http.Request, c Caller) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
}

// From returns the caller in a context; the zero Caller, which may do nothing, if there is none.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
