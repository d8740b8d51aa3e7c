package collect

import (
	"culprit/measure"
	"fmt"
	"strings"
	"testing"
)

// processKeyFiles is a machine with one process, and no taskstats.
func processKeyFiles() keyedMachine {
	now := 100 * measure.Second
	p := madeUp{pid: 7, parent: 1, comm: "busy", usr: 100, sys: 50, minor: 10, major: 1, start: 500, rss: 3, wait: 4}
	k := keyedMachine{collector: Processes{now: func() measure.Span { return now }, passwd: "/dev/null"}, texts: p.files("1505000000 2000 30", 20, 10, 100),
		files: map[string]keyedFile{}, beside: map[string]string{"proc/sys/kernel/task_delayacct": "1\n",
			"proc/stat": "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 9 9 9 9 9 9 9 9 9 9\nctxt 1\n"}}
	k.texts["proc/7/limits"] = "Limit Soft Limit Hard Limit Units\nMax open files 1024 4096 files\n"
	before := p
	p.usr, p.sys, p.minor, p.major, p.rss, p.wait, p.state = 130, 60, 15, 2, 4, 9, "R"
	k.next = p.files("1907000000 5000 41", 27, 14, 150)
	k.next["proc/7/limits"] = k.texts["proc/7/limits"]
	of := keyedFile{must: true, cut: cutLines} // a process without it has ended
	for file, keyed := range map[string]keyedFile{"7/io": of, "7/status": of, "self/schedstat": columnKeys(0, 10), "self/io": {cut: func(string) map[string]string { return nil }, grow: strings.ToUpper}, "7/limits": lineKeys, "7/stat": statColumns} {
		k.files["proc/"+file] = keyed
	}
	k.texts["proc/self/io"] = "rchar: 1\n"
	for name, text := range before.files("1 1 1", 1, 1, 1) {
		k.beside[strings.Replace(name, "proc/7/", "proc/7/task/7/", 1)] = text
	}
	k.texts["proc/self/schedstat"] = "1 1 1\n"
	k.spread = 2                                                     // of the process and of its thread
	k.dependent = map[string]string{"proc/7/status": "process.info", // a user that is not known is an empty word
		"proc/self/schedstat": "process.cpu thread.cpu"} // then known to the tick
	for name, text := range k.texts {
		if _, keyed := k.files[name]; !keyed {
			k.beside[name] = text
		}
	}
	return k
}

// statColumns are the columns of a process' stat line, of which 42 with the disk waits came with
// 2.6.18.
var statColumns = keyedFile{must: true, cut: func(text string) map[string]string {
	all, w := map[string]string{}, strings.Fields(text)
	for n := 24; n < len(w); n++ {
		all[fmt.Sprintf("columns from %d on", n+1)] = strings.Join(w[:n], " ") + "\n"
	}
	return all
}}

// keyedProcess are the readers of named keys and of columns that some kernels lack.
func keyedProcess() map[string]keyedMachine {
	return map[string]keyedMachine{"processes": processKeyFiles()}
}

func TestMissingKeysProcess(t *testing.T)      { checkMissingKeys(t, keyedProcess()) }
func TestNothingBelowZeroProcess(t *testing.T) { checkNothingBelowZero(t, keyedProcess()) }
