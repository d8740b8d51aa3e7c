// Package client talks to a running server over HTTP. Client is a measure.Reader: its answers
// equal, bit for bit, those of the server's own reader.
package client
