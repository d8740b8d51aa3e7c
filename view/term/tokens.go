package term

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/term/output"

	"github.com/spf13/cobra"
)

// Tokens are the tokens of a server, beside its own.
type Tokens interface {
	// List returns all tokens, oldest first.
	List() ([]Token, error)
	// Add makes a token and returns its secret, which is stored nowhere. It fails if the name or
	// role is invalid, or if the name is in use.
	Add(t Token) (secret string, err error)
	// Remove deletes a token.
	Remove(name string) error
}

// Token is a token without its secret.
type Token struct {
	Name  string
	May   string
	Made  measure.Time
	Until measure.Time // 0: valid for ever
}

// roles lists the roles of tokens, least first.
var roles = []string{"metrics", "view", "profile", "record", "trace"} // table: the words of --may

// tokens returns the command that lists and changes the tokens of a server.
func (p Program) tokens() *cobra.Command {
	var dir, may, length string
	var printToken bool
	with := func(do func(t Tokens, args []string) error) func(*cobra.Command, []string) error {
		return func(_ *cobra.Command, args []string) error {
			t, err := p.Tokens(dir)
			if err != nil {
				return err
			}
			return do(t, args)
		}
	}
	list := with(func(t Tokens, _ []string) error {
		all, err := t.List()
		if err != nil {
			return err
		}
		if len(all) == 0 {
			_, err = fmt.Fprintln(
				p.Terminal.Out,
				"There is only the server's own token, in the file token of its directory; "+
					"it grants every role.",
			)
			return err
		}
		out := output.Text{
			Out: p.Terminal.Out, Width: p.Terminal.Width, Bold: p.Terminal.Colour,
		}
		return out.Table(tokenTable(all, time.Now()))
	})
	c := &cobra.Command{
		Use:   "tokens",
		Short: "access to culprit serve: tokens and their roles",
		Long: reflow(
			`The address that culprit serve prints grants every role. For other users make tokens of their own
with one role each. metrics: scrape metrics, without command lines, addresses of peers, users and
stacks. view: see all that is recorded. profile: view, and also sample stacks and upload profiles.
record: view, and also change what is recorded and upload profiles. trace: everything, also D
programs.

D reads all memory of the machine, also passwords while they are typed: a token with the role trace
is as good as root.

The audit log has the name of the token: "culprit datasets changes". A token is shown once; the
server's directory holds only its hash. A token that is removed or expired is refused at once, and
ends the sessions of the browsers that logged in with it: "culprit sessions".`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{Line: "culprit tokens", Means: "all tokens"},
			{Line: "culprit tokens add ann", Means: "a token for ann, to view"},
			{
				Line:  "culprit tokens add oncall --may trace --for 12h",
				Means: "every role, for twelve hours",
			},
			{Line: "culprit tokens remove ann", Means: "remove it"},
		}),
		Args: cobra.ArbitraryArgs,
		RunE: listOr(list),
	}
	c.PersistentFlags().StringVar(
		&dir, "dir", "",
		"directory of the server (default: $CULPRIT_DIR, or that of culprit serve)",
	)
	add := &cobra.Command{
		Use:               "add NAME",
		Short:             "make a token and show it",
		Args:              exactly(1, "a name"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: with(func(t Tokens, args []string) error {
			if !slices.Contains(roles, may) {
				return usagef(
					"--may %q is none of %s%s", may, strings.Join(roles, ", "),
					didYouMean(may, roles),
				)
			}
			now := time.Now()
			one := Token{Name: args[0], May: may, Made: measure.Time(now.UnixNano())}
			if length != "" {
				d, err := parseValidity("for", length)
				if err != nil {
					return err
				}
				one.Until = one.Made.Add(d)
			}
			if !p.Terminal.IsTTY && !printToken {
				return usagef("standard output is no terminal, so the token would be in a file " +
					"or a log: --print-token prints it nevertheless")
			}
			secret, err := t.Add(one)
			if err != nil {
				return err
			}
			until := ""
			if one.Until != 0 {
				until = " until " + formatTime(one.Until)
			}
			_, err = fmt.Fprintf(
				p.Terminal.Out,
				"%s\n\nis the token of %s with the role %s%s. %s in the header "+
					"Authorization: Bearer.\nIt is not shown again.\n%s",
				secret, view.Clean(one.Name), one.May, until, howToUse(may), warning(may),
			)
			return err
		}),
	}
	add.Flags().StringVar(
		&may, "may", "view",
		"role: "+strings.Join(roles, ", "),
	)
	add.Flags().BoolVar(
		&printToken, "print-token", false,
		"print the token also where the output is no terminal, such as a pipe",
	)
	add.Flags().StringVar(
		&length, "for", "", "how long it is valid: 30m, 12h, 7d (default: for ever)",
	)
	completeWith(add, "may", roles)
	remove := &cobra.Command{
		Use:               "remove NAME...",
		Short:             "remove tokens",
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("remove takes the names of tokens; `culprit tokens` lists them")
			}
			return nil
		},
		RunE: with(func(t Tokens, args []string) error {
			for _, name := range args {
				if err := t.Remove(name); err != nil {
					return err
				}
				if _, err := fmt.Fprintln(p.Terminal.Out, "removed", view.Clean(name)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.AddCommand(
		&cobra.Command{
			Use:               "list",
			Short:             "all tokens",
			Args:              exactly(0, "no arguments"),
			RunE:              list,
			ValidArgsFunction: cobra.NoFileCompletions,
		},
		add,
		remove,
	)
	return c
}

// howToUse says how the token of a role is used, up to the header of programs.
func howToUse(role string) string {
	if role == "metrics" {
		return "Use it"
	}
	return "Use it as ?token= in the address of the page, or"
}

// warning says what the role of a token is worth, if that is more than its name says; else "".
func warning(role string) string {
	if role != "trace" {
		return ""
	}
	return "Keep it as you keep a password of root: D programs read all memory of the machine.\n"
}

// parseValidity parses the time of a flag: 90s, 30m, 12h, 7d, 2w, 1y.
func parseValidity(flag, text string) (measure.Span, error) {
	if i := len(text) - 1; i > 0 {
		n, err := strconv.ParseFloat(text[:i], 64)
		if days := n * daysPerUnit[text[i:]]; err == nil && days >= 1./86400 && days <= 100*365 {
			return measure.Span(days * 24 * 3600 * 1e9), nil
		}
	}
	return 0, usagef(
		"--%s %q: give a time of a second or more, such as 30m, 12h or 7d", flag, text,
	)
}

// tokenTable returns the table of tokens.
func tokenTable(all []Token, now time.Time) *view.Table {
	t := &view.Table{View: "tokens", Columns: []view.Column{
		{Name: "name", Head: "Name", Width: 16, Left: true, Help: "name of its owner"},
		{Name: "may", Head: "May", Width: 7, Left: true, Help: "role: " + strings.Join(roles, ", ")},
		{Head: "Made", Width: 19, Left: true, Help: "when it was made"},
		{Head: "Until", Left: true, Help: "when it expires"},
	}}
	for _, one := range all {
		until := "for ever"
		switch {
		case one.Until != 0 && one.Until.AsTime().Before(now):
			until = "expired " + formatTime(one.Until)
		case one.Until != 0:
			until = formatTime(one.Until)
		}
		t.Rows = append(
			t.Rows,
			view.Row{
				Key: one.Name,
				Cells: []view.Cell{
					view.T(one.Name),
					view.T(one.May),
					view.T(formatTime(one.Made)),
					view.T(until),
				},
			},
		)
	}
	return t
}
