// Package drill asks what follows from a row of a graph: questions in words, each with the query
// that answers it. One table has all of them. It is pure: a Lookup reads the machine.
package drill
