package term

import (
	"fmt"
	"os"

	"culprit/view/term/manual"

	"github.com/spf13/cobra"
)

// man returns the command that prints or writes the manual pages.
func (p Program) man() *cobra.Command {
	c := &cobra.Command{
		Use:   "man [DIRECTORY]",
		Short: "print the manual page of culprit, or write those of all commands into a directory",
		Long: "Without a directory the page of culprit itself goes to standard output: " +
			"`culprit man | man -l -`.",
		Args: cobra.MaximumNArgs(1),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		root := c.Root()
		if len(args) == 0 {
			page, err := manual.Page(root, p.Version)
			if err != nil {
				return fmt.Errorf("make the manual page: %w", err)
			}
			_, err = p.Terminal.Out.Write(page)
			return err
		}
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return fmt.Errorf("make directory for manual pages: %w", err)
		}
		n, err := manual.WritePages(root, p.Version, args[0])
		if err != nil {
			return fmt.Errorf("write manual pages: %w", err)
		}
		_, err = fmt.Fprintf(p.Terminal.Out, "%d pages in %s\n", n, args[0])
		return err
	}
	return c
}
