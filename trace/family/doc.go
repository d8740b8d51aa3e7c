// Package family has the built-in traced statistics. A file of D in statistics/ describes a family
// of them. For a query the package compiles only the parts of that file that the query needs.
package family
