// Package wire is how processes of culprit write to each other: frames with a length, and values
// within them. Reading is bounded: neither a length nor a count costs memory that the bytes of the
// peer do not fill.
package wire
