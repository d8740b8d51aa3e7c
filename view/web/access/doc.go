// Package access authenticates and authorizes requests to a server: tokens, roles, the permissions
// that each request needs, and what a request must prove.
package access
