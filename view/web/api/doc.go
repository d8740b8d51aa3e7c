// Package api holds what the server and its client must agree on: the columns format of an answer,
// the codes of errors, and times in milliseconds. docs/openapi.yaml describes the whole API and
// docs/FORMATS.md draws the columns.
package api
