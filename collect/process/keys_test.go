package process

import (
	"fmt"
	"strings"
	"testing"

	"culprit/collect/collecttest"
	"culprit/measure"
)

// processKeyFiles returns a machine with one process and without taskstats.
func processKeyFiles() collecttest.KeyedMachine {
	now := 100 * measure.Second
	p := fakeProcess{
		pid:    7,
		parent: 1,
		comm:   "busy",
		usr:    100,
		sys:    50,
		minor:  10,
		major:  1,
		start:  500,
		rss:    3,
		wait:   4,
	}
	k := collecttest.KeyedMachine{
		Collector: Processes{now: func() measure.Span { return now }, passwd: "/dev/null"},
		Texts:     p.files("1505000000 2000 30", 20, 10, 100),
		Files:     map[string]collecttest.KeyedFile{},
		Beside: map[string]string{"proc/sys/kernel/task_delayacct": "1\n",
			"proc/stat": "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 9 9 9 9 9 9 9 9 9 9\nctxt 1\n"},
	}
	k.Texts["proc/7/limits"] = "Limit Soft Limit Hard Limit Units\nMax open files 1024 4096 files\n"
	before := p
	p.usr, p.sys, p.minor, p.major, p.rss, p.wait, p.state = 130, 60, 15, 2, 4, 9, "R"
	k.Next = p.files("1907000000 5000 41", 27, 14, 150)
	k.Next["proc/7/limits"] = k.Texts["proc/7/limits"]
	// a process without it has ended
	of := collecttest.KeyedFile{Must: true, Cut: collecttest.CutLines}
	none := func(string) map[string]string { return nil }
	for file, keyed := range map[string]collecttest.KeyedFile{
		"7/io":           of,
		"7/status":       of,
		"self/schedstat": collecttest.ColumnKeys(0, 10),
		"self/io":        {Cut: none, Grow: strings.ToUpper},
		"7/limits":       collecttest.LineKeys,
		"7/stat":         statColumns,
	} {
		k.Files["proc/"+file] = keyed
	}
	k.Texts["proc/self/io"] = "rchar: 1\n"
	for name, text := range before.files("1 1 1", 1, 1, 1) {
		k.Beside[strings.Replace(name, "proc/7/", "proc/7/task/7/", 1)] = text
	}
	k.Texts["proc/self/schedstat"] = "1 1 1\n"
	// of the process and of its thread
	k.Spread = 2
	// an unknown user is an empty word
	k.Dependent = map[string]string{"proc/7/status": "process.info",
		"proc/self/schedstat": "process.cpu thread.cpu"} // then known to the tick
	for name, text := range k.Texts {
		if _, keyed := k.Files[name]; !keyed {
			k.Beside[name] = text
		}
	}
	return k
}

// statColumns are the columns of a process' stat line. Column 42 with the disk waits exists since
// 2.6.18.
var statColumns = collecttest.KeyedFile{Must: true, Cut: func(text string) map[string]string {
	all, w := map[string]string{}, strings.Fields(text)
	for n := 24; n < len(w); n++ {
		all[fmt.Sprintf("columns from %d on", n+1)] = strings.Join(w[:n], " ") + "\n"
	}
	return all
}}

// keyedMachines are machines with files that lack keys or columns on some kernels.
func keyedMachines() map[string]collecttest.KeyedMachine {
	return map[string]collecttest.KeyedMachine{"processes": processKeyFiles()}
}

func TestMissingKeys(t *testing.T)      { collecttest.CheckMissingKeys(t, keyedMachines()) }
func TestNothingBelowZero(t *testing.T) { collecttest.CheckNothingBelowZero(t, keyedMachines()) }
