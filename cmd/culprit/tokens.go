package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"culprit/view/term"
	"culprit/view/web"
)

// tokensPath returns the file with the tokens of the server that records in dir.
func tokensPath(dir string) string { return filepath.Join(dir, "tokens") }

// openTokens returns the tokens of the server that records in the requested directory; "": the
// user's own.
func openTokens(requested string) (term.Tokens, error) {
	dir, err := userDirectory(requested)
	if err != nil {
		return nil, err
	}
	return tokensFile{dir}, nil
}

// tokensFile is the tokens file of a recording directory. The server need not run.
type tokensFile struct{ dir string }

// List implements term.Tokens.
func (l tokensFile) List() ([]term.Token, error) {
	all, err := web.ReadTokens(tokensPath(l.dir))
	var out []term.Token
	for _, token := range all {
		out = append(
			out,
			term.Token{
				Name:  token.Name,
				May:   token.May.String(),
				Made:  token.Made,
				Until: token.Ends,
			},
		)
	}
	return out, withDirectoryHint(err)
}

// Add implements term.Tokens.
func (l tokensFile) Add(t term.Token) (string, error) {
	may, err := web.ParseRole(t.May)
	if err != nil {
		return "", err
	}
	if err := l.checkRecorded(); err != nil {
		return "", err
	}
	secret, err := web.AddToken(
		tokensPath(l.dir), web.Token{Name: t.Name, May: may, Made: t.Made, Ends: t.Until},
	)
	return secret, withDirectoryHint(err)
}

// Remove implements term.Tokens.
func (l tokensFile) Remove(name string) error {
	if err := l.checkRecorded(); err != nil {
		return err
	}
	return withDirectoryHint(web.RemoveToken(tokensPath(l.dir), name))
}

// checkRecorded returns an error if no server has recorded in the directory: no server would read
// the token.
func (l tokensFile) checkRecorded() error {
	if err := checkDirectory(l.dir); err != nil {
		return err
	}
	if _, err := os.Stat(archivePath(l.dir)); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf(
			"nothing was recorded in %s%s: start `culprit serve`", l.dir, rootRecordHint(l.dir),
		)
	}
	return nil
}
