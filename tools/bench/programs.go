package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"time"
)

// brief are programs that use 2 to 10 ms of CPU time, like most programs that a build starts. Each
// has other mappings and functions. Few of them still run at the next reading.
//
// table: constant
var brief = [][]string{
	{"awk", "BEGIN { for (i = 0; i < 20000; i++) x += i }"},
	{"gzip", "-c", "/bin/ls"},
	{"sha256sum", "/bin/bash"},
	{"perl", "-e", "$x += $_ for 1 .. 30000"},
	{"sort", "/etc/services"},
	{"sed", "-n", "s/[a-z]*_/x/gp", "/etc/services"},
	{"tar", "-cf", "/dev/null", "/etc/init.d"},
	{"grep", "-c", "sock", "/proc/kallsyms"},
	{"bash", "-c", "for i in {1..3000}; do :; done"},
}

// startPrograms starts the given number of programs per second, evenly spaced, until this process
// ends. A program that runs longer than the space between two starts does not delay the next one.
func startPrograms(each string) error {
	n, err := strconv.Atoi(each)
	if err != nil || n < 1 {
		return fmt.Errorf("%q programs a second: not a number from 1 on", each)
	}
	var all [][]string
	for _, p := range brief {
		if _, err := exec.LookPath(p[0]); err == nil {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return errNoTool
	}
	next := time.NewTicker(time.Second / time.Duration(n))
	defer next.Stop()
	for i := 0; ; i++ {
		<-next.C
		p := all[i%len(all)]
		go exec.Command(p[0], p[1:]...).Run() //nolint:errcheck // what it finds is not asked for
	}
}
