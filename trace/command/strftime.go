package command

import (
	"fmt"
	"strings"
	"time"
)

// strftime formats a time as strftime(3) does in the locale C, with %f for microseconds as bpftrace
// has it. An unknown conversion stays as it is.
func strftime(layout string, t time.Time) string {
	var out strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			out.WriteByte(layout[i])
			continue
		}
		i++
		if text, ok := timePart(layout[i], t); ok {
			out.WriteString(text)
		} else {
			out.WriteString(layout[i-1 : i+1])
		}
	}
	return out.String()
}

// timePart returns one conversion of a time.
func timePart(c byte, t time.Time) (string, bool) {
	if layout, ok := timeLayouts[c]; ok {
		return t.Format(layout), true
	}
	switch c {
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100), true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay()), true
	case 'k':
		return fmt.Sprintf("%2d", t.Hour()), true
	case 'G':
		year, _ := t.ISOWeek()
		return fmt.Sprint(year), true
	case 'V':
		_, week := t.ISOWeek()
		return fmt.Sprintf("%02d", week), true
	case 's':
		return fmt.Sprint(t.Unix()), true
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1), true
	case 'w':
		return fmt.Sprint(int(t.Weekday())), true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case '%':
		return "%", true
	}
	return "", false
}

// timeLayouts are the conversions of strftime that are layouts of package time.
//
// table: conversion to layout
var timeLayouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'c': "Mon Jan _2 15:04:05 2006",
	'd': "02", 'D': "01/02/06", 'e': "_2", 'F': "2006-01-02", 'h': "Jan", 'H': "15", 'I': "03",
	'm': "01", 'M': "04", 'p': "PM", 'r': "03:04:05 PM", 'R': "15:04", 'S': "05", 'T': "15:04:05",
	'x': "01/02/06", 'X': "15:04:05", 'y': "06", 'Y': "2006", 'z': "-0700", 'Z': "MST",
}
