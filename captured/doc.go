// Package captured reads the tables that people paste into tickets, and reports the findings that
// their numbers allow. Read finds tables in any text: of mpstat, vmstat, iostat, sar, nicstat,
// lockstat, DTrace and many more, with columns squeezed to single blanks, headers cut, prompts and
// prose around them. Diagnose turns tables into a diagnose.Report, and states what they cannot
// show. The package is pure: text in, reports out.
package captured
