package term

import (
	"context"
	"fmt"

	"culprit/measure"
	"culprit/view"
	"culprit/view/term/output"

	"github.com/spf13/cobra"
)

// Sessions are the sessions of browsers at a running server.
type Sessions interface {
	// Sessions lists them, newest first.
	Sessions(ctx context.Context) ([]Session, error)
	// Revoke ends a session, or all with the ID "all", and returns how many ended.
	Revoke(ctx context.Context, id string) (count int, err error)
	// Close closes the connection to the server.
	Close() error
}

// Session is one login of a browser.
type Session struct {
	ID      string
	Token   string // name of the token; "": the server's own
	Browser string
	From    string // address at the login
	Made    measure.Time
	Used    measure.Time
	Ends    measure.Time
}

// sessionsFunc runs a command with the sessions of a server.
type sessionsFunc = func(*cobra.Command, Sessions, []string) error

// sessions returns the command that lists and ends the sessions of a server.
func (p Program) sessions() *cobra.Command {
	var dir string
	with := func(do sessionsFunc) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			s, err := p.Sessions(dir)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }() // only read
			return do(c, s, args)
		}
	}
	list := with(func(c *cobra.Command, s Sessions, _ []string) error {
		all, err := s.Sessions(c.Context())
		if err != nil {
			return err
		}
		if len(all) == 0 {
			_, err = fmt.Fprintln(p.Terminal.Out, "No browser is logged in.")
			return err
		}
		out := output.Text{
			Out: p.Terminal.Out, Width: p.Terminal.Width, Bold: p.Terminal.Colour,
		}
		return out.Table(sessionTable(all))
	})
	c := &cobra.Command{
		Use:   "sessions",
		Short: "browsers that are logged in to culprit serve",
		Long: reflow(
			`A browser that opens the page with a token begins a session. It ends when it was not used for
--session-idle, --session-max after its login, by "log out" on the page, by revoke, and when its
token is removed or expires. A token has at most 16 sessions. Programs send their token and have no
session.`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{Line: "culprit sessions", Means: "all sessions"},
			{Line: "culprit sessions revoke 4f1c09aa27d1be35", Means: "end one"},
			{Line: "culprit sessions revoke all", Means: "end all: everybody must log in again"},
		}),
		Args: cobra.ArbitraryArgs,
		RunE: listOr(list),
	}
	c.PersistentFlags().StringVar(
		&dir, "dir", "",
		"directory of the server (default: $CULPRIT_DIR, or that of culprit serve)",
	)
	c.AddCommand(
		&cobra.Command{
			Use:               "list",
			Short:             "all sessions",
			Args:              exactly(0, "no arguments"),
			RunE:              list,
			ValidArgsFunction: cobra.NoFileCompletions,
		},
		p.revoke(with),
	)
	return c
}

// revoke returns the command that ends sessions. with connects to the server.
func (p Program) revoke(
	with func(sessionsFunc) func(*cobra.Command, []string) error,
) *cobra.Command {
	return &cobra.Command{
		Use:               "revoke ID...",
		Short:             "end sessions",
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef(
					"revoke takes the IDs of sessions, or all; `culprit sessions` lists them",
				)
			}
			return nil
		},
		RunE: with(func(c *cobra.Command, s Sessions, args []string) error {
			for _, id := range args {
				count, err := s.Revoke(c.Context(), id)
				if err != nil {
					return err
				}
				text := "ended " + view.Clean(id)
				if id == "all" {
					text = fmt.Sprintf("ended %d", count)
				}
				if _, err := fmt.Fprintln(p.Terminal.Out, text); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

// sessionTable returns the table of sessions.
func sessionTable(all []Session) *view.Table {
	t := &view.Table{View: "sessions", Columns: []view.Column{
		{Name: "id", Head: "ID", Width: 16, Left: true, Help: "for revoke; no secret"},
		{Name: "token", Head: "Token", Width: 14, Left: true, Help: "name of the token"},
		{Name: "browser", Head: "Browser", Width: 18, Left: true, Help: "browser and system"},
		{Name: "from", Head: "From", Width: 15, Left: true, Help: "address at the login"},
		{Head: "Login", Width: 19, Left: true, Help: "when it began"},
		{Head: "Last used", Width: 19, Left: true, Help: "its newest request"},
		{Head: "Ends", Left: true, Help: "when it ends if it is not used again"},
	}}
	for _, one := range all {
		token := one.Token
		if token == "" {
			token = "of the server"
		}
		t.Rows = append(t.Rows, view.Row{Key: one.ID, Cells: []view.Cell{
			view.T(one.ID), view.T(token), view.T(one.Browser), view.T(one.From),
			view.T(formatTime(one.Made)), view.T(formatTime(one.Used)),
			view.T(formatTime(one.Ends)),
		}})
	}
	return t
}
