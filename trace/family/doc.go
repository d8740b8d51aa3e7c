// Package family has the built-in traced statistics. A file of D in statistics/ describes a family
// of them; a query makes a program of the parts of that file that it needs.
package family
