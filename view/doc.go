// Package view makes tables and texts of answers and findings. It is pure: the same answers make the
// same table, live or from the archive. It measures, fetches and prints nothing; view/term and
// view/web do.
package view
