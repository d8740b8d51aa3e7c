// Package web serves what a machine records over HTTP: answers, live rows, the tables of the tools, datasets, findings and
// the page; and it has a client that makes a running server a measure.Reader. It measures nothing and decides nothing
// about what is recorded. It lets nobody in who has no token, and listens on no routable address without TLS.
package web
