// Package view turns answers into what people look at: tables now, charts, heat maps and flame
// graphs later. It is pure: the same answers give the same picture, live or from the archive,
// whoever shows it.
//
// It refuses to measure, to fetch and to print: the rooms below it (term, web) do the showing.
package view
