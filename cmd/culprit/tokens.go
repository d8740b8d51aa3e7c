package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"culprit/view/term"
	"culprit/view/web"
)

// passesOf gives the file of those who are let in by the server of a directory.
func passesOf(dir string) string { return filepath.Join(dir, "tokens") }

// tokens gives who is let in by the server of a directory.
func tokens(asked string) (term.Tokens, error) {
	dir, err := myDirectory(asked)
	if err != nil {
		return nil, err
	}
	return letIn{dir}, nil
}

// letIn is who is let in by the server of a directory, which need not run.
type letIn struct{ dir string }

// List implements term.Tokens.
func (l letIn) List() ([]term.Token, error) {
	all, err := web.ReadTokens(passesOf(l.dir))
	var out []term.Token
	for _, p := range all {
		out = append(
			out, term.Token{Name: p.Name, May: p.May.String(), Made: p.Made, Until: p.Ends},
		)
	}
	return out, unusable(err)
}

// Add implements term.Tokens.
func (l letIn) Add(t term.Token) (string, error) {
	may, err := web.ParseRole(t.May)
	if err != nil {
		return "", err
	}
	if err := l.recorded(); err != nil {
		return "", err
	}
	secret, err := web.AddToken(
		passesOf(l.dir), web.Token{Name: t.Name, May: may, Made: t.Made, Ends: t.Until},
	)
	return secret, unusable(err)
}

// Remove implements term.Tokens.
func (l letIn) Remove(name string) error {
	if err := l.recorded(); err != nil {
		return err
	}
	return unusable(web.RemoveToken(passesOf(l.dir), name))
}

// recorded says what is wrong where no server has ever recorded: a token there would let nobody in.
func (l letIn) recorded() error {
	if _, err := os.Stat(archiveOf(l.dir)); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf(
			"nothing was recorded in %s%s: start `culprit serve`", l.dir, elsewhere(l.dir),
		)
	}
	return nil
}
