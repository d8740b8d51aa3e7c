// Package view makes tables and texts of answers and findings. It is pure: the same answers make
// the same table, live or from the archive. Packages view/term and view/web measure, fetch and
// print.
package view
