package term

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"culprit/view"
	"culprit/yamlfile"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// config returns the command about the configuration file.
func (p Program) config() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "the configuration file of culprit serve: check, show, example",
		Long: reflow(
			`culprit serve reads /etc/culprit/culprit.yaml, or the file of --config. Each flag of culprit serve
is a key of the same name: --size 3GB is size: 3GB. A flag that may be repeated is a list. A flag of
the command line has precedence over the file, and the file over the default.

The file must belong to root or to the user of the server, and no other user may write to it. A file
with a password must not be readable by others.

SIGHUP (systemctl reload culprit) reads the file again. A file with mistakes changes nothing. Keys
that can change are replaced without a gap in the recording; live views of the page connect again.
These keys can change: `+strings.Join(reloadable(), ", ")+`. The others need a restart, and the
server names those that differ.`,
			helpWidth,
		),
		Args: cobra.NoArgs,
		Example: examples([]view.Example{
			{Line: "culprit config check", Means: "check " + defaultConfig},
			{Line: "culprit config show --size 3GB", Means: "what applies with that flag, and why"},
			{
				Line:  "culprit config example > " + defaultConfig,
				Means: "begin with a file that documents each key",
			},
		}),
	}
	c.AddCommand(p.configCheck(), p.configShow(), p.configExample())
	return c
}

// reloadable returns the keys that a running server can change.
func reloadable() (names []string) {
	for _, s := range settings() {
		if s.reload {
			names = append(names, s.name)
		}
	}
	return names
}

// configCheck returns the command that checks a file.
func (p Program) configCheck() *cobra.Command {
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "check a configuration file, and the files that it names",
		Long: reflow(
			`Prints each mistake with file, line and column, and the nearest key for an unknown one. The exit
status is 0 if there is none and 2 otherwise. Without FILE it checks `+defaultConfig+`.`,
			helpWidth,
		),
		Args: cobra.MaximumNArgs(1),
	}
	c.RunE = func(_ *cobra.Command, args []string) error {
		path := defaultConfig
		if len(args) > 0 {
			path = args[0]
		}
		given, err := configArgument(path)
		if err != nil {
			return err
		}
		got, err := p.configure(given)
		if err != nil {
			return err
		}
		if p.CheckServing != nil {
			if err := p.CheckServing(got.serving(p)); err != nil {
				return usageError{Cause: got.positioned(err)}
			}
		}
		n := 0
		if got.file != nil {
			n = len(got.file.Values)
		}
		_, err = fmt.Fprintf(p.Terminal.Out, "%s is valid: %d keys are set\n", view.Clean(path), n)
		return err
	}
	return c
}

// configArgument returns the flag --config FILE as if the command line had it.
func configArgument(path string) ([]*pflag.Flag, error) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(serveFlags).define(f)
	if err := f.Set(configFlag, path); err != nil {
		return nil, err
	}
	return []*pflag.Flag{f.Lookup(configFlag)}, nil
}

// shownSetting is a row of `culprit config show`.
type shownSetting struct {
	Key    string   `json:"key"`
	Values []string `json:"values"` // one, unless the flag may be repeated
	From   string   `json:"from"`   // default, flag, $CULPRIT_DIR, or FILE:LINE:COLUMN
	Reload bool     `json:"reload"` // SIGHUP changes it in a running server
}

// configShow returns the command that shows what applies.
func (p Program) configShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show [FLAGS OF CULPRIT SERVE]",
		Short: "the value of each key, and where it comes from",
		Long: reflow(
			`Takes the flags of culprit serve, and prints what culprit serve would use: the value, and the
default, the flag, the line of the file or the variable that it comes from. Passwords, values of
headers and of queries, and paths of webhooks are hidden.`,
			helpWidth,
		),
		Args: cobra.NoArgs,
	}
	new(serveFlags).define(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var given []*pflag.Flag
		c.Flags().Visit(func(f *pflag.Flag) {
			if f.Name != "json" {
				given = append(given, f)
			}
		})
		got, err := p.configure(given)
		if err != nil {
			return err
		}
		rows := got.rows()
		if asJSON {
			return json.NewEncoder(p.Terminal.Out).Encode(rows)
		}
		return printSettings(p.Terminal.Out, rows)
	}
	return c
}

// rows returns the effective settings, without secrets.
func (c *configured) rows() (rows []shownSetting) {
	for _, s := range settings() {
		row := shownSetting{Key: s.name, Reload: s.reload}
		row.Values, row.From = c.shown(s)
		rows = append(rows, row)
	}
	return rows
}

func printSettings(out io.Writer, rows []shownSetting) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tVALUE\tFROM") //nolint:errcheck // Flush returns the error
	for _, row := range rows {
		text := view.Clean(strings.Join(row.Values, " "))
		if text == "" {
			text = "-"
		}
		fmt.Fprintf( //nolint:errcheck // as above
			w, "%s\t%s\t%s\n", row.Key, text, view.Clean(row.From),
		)
	}
	return w.Flush()
}

// configExample returns the command that prints the example file.
func (p Program) configExample() *cobra.Command {
	return &cobra.Command{
		Use:   "example",
		Short: "a configuration file that documents each key, all commented out",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(p.Terminal.Out, exampleConfig())
			return err
		},
	}
}

// exampleConfig returns the example file: each key with its help and its default, commented out.
func exampleConfig() string {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(serveFlags).define(f)
	var b strings.Builder
	b.WriteString(`# Configuration of culprit serve. Each key is a flag of that name: culprit serve --help.
# "culprit config check" checks this file, "culprit config show" prints what applies.
# Keys marked (reload) are read again by: systemctl reload culprit
`)
	for _, g := range settingGroups() {
		b.WriteString("\n## " + g.title + "\n")
		for _, s := range g.settings {
			flag := f.Lookup(s.name)
			help := flag.Usage
			if s.reload {
				help += " (reload)"
			}
			b.WriteString("\n")
			for line := range strings.SplitSeq(reflow(help, helpWidth), "\n") {
				b.WriteString("# " + line + "\n")
			}
			b.WriteString("#" + s.name + ": " + s.exampleOr(flag.DefValue) + "\n")
		}
	}
	return b.String()
}

// exampleOr returns the value in the example file.
func (s setting) exampleOr(standard string) string {
	if s.example != "" {
		return s.example
	}
	return standard
}

// configTable returns the table of all keys for docs/CONFIGURATION.md.
func configTable() string {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(serveFlags).define(f)
	var b strings.Builder
	b.WriteString("| key | value | default | reload | what it sets |\n|---|---|---|---|---|\n")
	keys := configKeys()
	for _, s := range settings() {
		flag := f.Lookup(s.name)
		at := slices.IndexFunc(keys, func(k yamlfile.Key) bool { return k.Name == s.name })
		standard, reload := "", "restart"
		if flag.DefValue != "" && flag.DefValue != "[]" {
			standard = "`" + flag.DefValue + "`"
		}
		if s.reload {
			reload = "reload"
		}
		fmt.Fprintf(&b, "| `%s` | %v | %s | %s | %s |\n", s.name, keys[at].Kind, standard, reload,
			strings.ReplaceAll(flag.Usage, "|", `\|`))
	}
	return b.String()
}
