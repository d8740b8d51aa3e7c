package main

import (
	"strings"
	"testing"
)

func TestRewrite(t *testing.T) {
	page := strings.Join([]string{
		"<!-- fault: link-saturated -->", "Look at culab12-src:", "", "```",
		"$ ip netns exec culab12-src culprit nic 1 1",
		"old output", "$ uptime", "more of it", "```", "", "    $ not a block", "",
	}, "\n")
	want := strings.Join([]string{
		"<!-- fault: link-saturated -->", "Look at culab7-src:", "", "```",
		"$ ip netns exec culab7-src culprit nic 1 1",
		"<ip netns exec culab7-src culprit nic 1 1>", "$ uptime", "<uptime>", "```", "",
		"    $ not a block", "",
	}, "\n")
	got := rewrite(page, "culab7", func(command string) string { return "<" + command + ">\n" })
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOutput(t *testing.T) {
	if got := output("echo 'a  '; echo b >&2"); got != "a\nb\n" {
		t.Errorf("%q", got)
	}
}
