package term

import (
	"regexp"
	"strings"
	"testing"
)

// Commands and flags of other tools are answered with what exists here.
func TestHabits(t *testing.T) {
	for command, want := range map[string]string{
		"mpstat":          "culprit cpu",
		"iostat -xz 1":    "culprit disk",
		"sar -n DEV 1 1":  "culprit cpu, mem, disk, nic, tcp",
		"strace -p 1":     "culprit trace",
		"opensnoop":       "culprit trace opensnoop",
		"cpu -P ALL 1":    "there is no flag -P: each CPU has a row",
		"disk -xz 1":      "there is no flag -x: the columns of iostat -x",
		"top -b":          "culprit ps 1 prints without a screen",
		"ps aux":          "use culprit ps -a for all processes",
		"ps -ef":          "there is no flag -e: -a shows all processes",
		"cpu -Q":          "unknown shorthand flag: 'Q' in -Q (`culprit cpu -h` shows all flags)",
		"nosuchtool -x 1": "unknown shorthand flag: 'x'",
	} {
		root := Program{}.root()
		root.SetArgs(strings.Fields(command))
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("culprit %s: %v, want %q", command, err, want)
		}
	}
}

// Each hint names commands and flags that exist, and no flag that the command has.
func TestHabitsExist(t *testing.T) {
	root := Program{}.root()
	exists := func(text string) {
		for _, m := range regexp.MustCompile(`culprit ([a-z]+)`).FindAllStringSubmatch(text, -1) {
			c, _, err := root.Find(m[1:2])
			if m[1] != "load" && (err != nil || c == root) { // load is of a Program with a machine
				t.Errorf("%q names %s, which is no command", text, m[1])
			}
		}
	}
	seen := map[string]bool{}
	for _, o := range others {
		exists(o.here)
		for name := range strings.SplitSeq(o.names, " | ") {
			if c, _, err := root.Find([]string{name}); err == nil && c != root {
				t.Errorf("%s is a command of culprit", name)
			}
			if seen[name] {
				t.Errorf("%s is in two rows", name)
			}
			seen[name] = true
		}
	}
	for name, flags := range habits {
		c, _, err := root.Find([]string{name})
		if err != nil || c == root {
			t.Errorf("%s is no command", name)
			continue
		}
		c.InitDefaultHelpFlag()
		for flag, hint := range flags {
			exists(hint)
			if c.Flags().ShorthandLookup(flag) != nil {
				t.Errorf("culprit %s has a flag -%s", name, flag)
			}
			for _, m := range regexp.MustCompile(`^--?[\w-]+`).FindAllString(hint, -1) {
				long := strings.TrimPrefix(m, "--")
				if long != m && c.Flags().Lookup(long) == nil ||
					long == m && c.Flags().ShorthandLookup(m[1:]) == nil {
					t.Errorf("culprit %s -%s: the hint %q names %s, which it does not have", name,
						flag, hint, m)
				}
			}
		}
	}
}
