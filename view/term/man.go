package term

import (
	"fmt"
	"os"
	"path/filepath"

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
			page, err := p.manPage(root)
			if err != nil {
				return fmt.Errorf("make the manual page: %w", err)
			}
			_, err = p.Terminal.Out.Write(page)
			return err
		}
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return fmt.Errorf("make directory for manual pages: %w", err)
		}
		n, err := p.manPages(root, args[0])
		if err != nil {
			return fmt.Errorf("write manual pages: %w", err)
		}
		_, err = fmt.Fprintf(p.Terminal.Out, "%d pages in %s\n", n, args[0])
		return err
	}
	return c
}

// manPages writes the pages of a command and its subcommands into a directory, and returns their
// number.
func (p Program) manPages(c *cobra.Command, directory string) (n int, err error) {
	page, err := p.manPage(c)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(directory, manName(c)+".1"), page, 0o644); err != nil {
		return 0, err
	}
	n = 1
	for _, child := range manChildren(c) {
		below, err := p.manPages(child, directory)
		if n += below; err != nil {
			return n, err
		}
	}
	return n, nil
}
