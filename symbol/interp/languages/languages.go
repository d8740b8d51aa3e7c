// Package languages lists the languages whose frames culprit reads. Another one is a package like
// symbol/python and an entry here, and in lang/gen the code that reads its frames.
package languages

import (
	"culprit/symbol/hotspot"
	"culprit/symbol/interp"
	"culprit/symbol/perl"
	"culprit/symbol/php"
	"culprit/symbol/python"
	"culprit/symbol/ruby"
	"culprit/symbol/v8"
)

// A language is what the package of one exports.
type language struct {
	of interp.Language
	// find returns the layout of the interpreter in a file; nil: there is none. path is where a
	// process has the file.
	find func(f interp.File, path string) interp.Layout
	// parse returns the layout that Numbers has returned; nil: a number is out of range.
	parse func(numbers []uint64) interp.Layout
}

// table: never changed
var all = [...]language{
	{interp.Python, python.Find, python.FromNumbers},
	{interp.Ruby, ruby.Find, ruby.FromNumbers},
	{interp.Perl, perl.Find, perl.FromNumbers},
	{interp.Java, hotspot.Find, hotspot.FromNumbers},
	{interp.PHP, php.Find, php.FromNumbers},
	{interp.JavaScript, v8.Find, v8.FromNumbers},
}

// MostNumbers is above how many numbers a layout has, with the number of its language.
const MostNumbers = 64

// Find returns the layout of the interpreter in a file; nil: there is none.
func Find(f interp.File, path string) interp.Layout {
	for i := range all {
		if l := all[i].find(f, path); l != nil {
			return l
		}
	}
	return nil
}

// Numbers returns a layout as numbers; nil: it is nil.
func Numbers(l interp.Layout) []uint64 {
	if l == nil {
		return nil
	}
	return append([]uint64{uint64(l.Language())}, l.Numbers()...)
}

// FromNumbers returns the layout that Numbers has returned; nil: it is not valid.
func FromNumbers(numbers []uint64) interp.Layout {
	if len(numbers) == 0 || len(numbers) > MostNumbers {
		return nil
	}
	for i := range all {
		if uint64(all[i].of) == numbers[0] {
			return all[i].parse(numbers[1:])
		}
	}
	return nil
}
