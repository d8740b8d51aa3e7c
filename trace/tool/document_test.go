package tool

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/TOOLS-TRACE.md anew")

// documentHead is the begin of docs/TOOLS-TRACE.md.
const documentHead = `# Ready-made tools of culprit trace

` + "`culprit trace NAME`" + ` runs a script that is part of the program. Names and options are those of bcc
and bpftrace. ` + "`culprit trace --tools`" + ` lists the tools, ` + "`culprit trace NAME --help`" + ` explains one,
and ` + "`culprit trace --tools NAME`" + ` prints its script in [D](D.md). With ` + "`--print`" + ` the values of the
options are defined at its head, so that a copy runs and can be changed:

    culprit trace opensnoop -x --print >opens.d
    culprit trace -C -s opens.d

All tools have these options. Where an option of the tool has the same letter, write the long name:

| option | meaning |
|---|---|
| ` + "`-d, --duration SECONDS`" + ` | end after this time; otherwise Ctrl-C ends the tool |
| ` + "`-c, --command COMMAND`" + ` | start a command, trace only it, and end with it; for tools with ` + "`--pid`" + ` |
| ` + "`-o, --output FILE`" + ` | append the output to a file |
| ` + "`--json`" + ` | one JSON object per line |
| ` + "`--print`" + ` | print the script |
| ` + "`--compile`" + ` | compile the script and load nothing |

Tools that need kprobes trace functions of the kernel, which some kernels do not allow. The others
use tracepoints, perf events and uprobes. A tool whose probes this kernel lacks fails with the
reason. Times are those between two events, and include what the probes between them cost. The
examples are the first lines of tests of the tools under loads of known size, on Linux 6.18; long
lines are cut.
`

// documents returns the texts of docs/TOOLS-TRACE.md and of a page per tool, by file name.
func documents(t *testing.T) map[string]string {
	t.Helper()
	var b strings.Builder
	b.WriteString(documentHead)
	b.WriteString("\n| tool | purpose |\n|---|---|\n")
	out := map[string]string{}
	for _, one := range All() {
		fmt.Fprintf(&b, "| [%s](trace/%[1]s.md) | %s |\n", one.Name, one.Purpose)
		out["trace/"+one.Name+".md"] = page(one)
	}
	out["TOOLS-TRACE.md"] = b.String()
	return out
}

// page returns the page of a tool.
func page(one *Tool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s.\n\n    %s\n\n", one.Name,
		strings.ToUpper(one.Purpose[:1])+one.Purpose[1:], one.Usage())
	options := append(append([]Option{}, one.Options...), one.Operands...)
	if len(options) > 0 {
		b.WriteString("| option | meaning | default |\n|---|---|---|\n")
	}
	for i := range options {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", optionText(&options[i]), options[i].Means,
			defaultText(&options[i]))
	}
	if len(options) > 0 {
		b.WriteString("\n")
	}
	b.WriteString("| column | unit | meaning |\n|---|---|---|\n")
	for _, c := range one.Columns {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.Name, c.Unit, c.Means)
	}
	b.WriteString("\n")
	for _, n := range one.Needs {
		fmt.Fprintf(&b, "* Needs %s.\n", n)
	}
	for _, n := range one.Notes {
		fmt.Fprintf(&b, "* %s.\n", strings.ToUpper(n[:1])+n[1:])
	}
	example, err := os.ReadFile(filepath.Join("testdata/examples", one.Name+".txt"))
	if err != nil {
		return b.String()
	}
	b.WriteString("\n")
	for line := range strings.Lines(string(example)) {
		b.WriteString(strings.TrimRight("    "+line, " \n") + "\n")
	}
	return b.String()
}

// optionText returns an option as it is written on the command line.
func optionText(o *Option) string {
	text := o.Name
	if o.Name != o.Macro() {
		text = "--" + o.Name
	}
	if o.Short != "" {
		text = "-" + o.Short + ", " + text
	}
	if o.Kind != Flag && o.Name != o.Macro() {
		text += " " + strings.ToUpper(string(o.Kind))
	}
	return text
}

// defaultText returns the default of an option.
func defaultText(o *Option) string {
	switch {
	case o.Kind == Flag, o.Default == `""`, o.Default == "none":
		return ""
	case o.Unit != "":
		return o.Default + " " + o.Unit
	}
	return o.Default
}

// docs/TOOLS-TRACE.md and docs/trace are what the declarations of the tools say.
func TestDocuments(t *testing.T) {
	for name, want := range documents(t) {
		name = filepath.Join("../../docs", name)
		if *update {
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the declarations say: go test ./trace/tool -update", name)
		}
	}
}
