package term

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// man makes the command that prints or writes the manual pages.
func (p Program) man() *cobra.Command {
	c := &cobra.Command{
		Use:   "man [DIRECTORY]",
		Short: "print the manual page of culprit, or write those of all commands into a directory",
		Long:  "Without a directory the page of culprit itself goes to standard output: `culprit man | man -l -`.",
		Args:  cobra.MaximumNArgs(1),
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		root := c.Root()
		root.DisableAutoGenTag = true
		header := &doc.GenManHeader{Section: "1", Source: "culprit " + p.Version, Manual: "culprit"}
		if len(args) == 0 {
			var b bytes.Buffer
			if err := doc.GenMan(root, header, &b); err != nil {
				return fmt.Errorf("make the manual page: %w", err)
			}
			_, err := p.Terminal.Out.Write(b.Bytes())
			return err
		}
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return fmt.Errorf("make directory for manual pages: %w", err)
		}
		if err := doc.GenManTree(root, header, args[0]); err != nil {
			return fmt.Errorf("write manual pages: %w", err)
		}
		pages, err := filepath.Glob(filepath.Join(args[0], "culprit*.1"))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.Terminal.Out, "%d pages in %s\n", len(pages), args[0])
		return err
	}
	return c
}
