package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"culprit/view/term"
	"culprit/view/web/access"
)

// tokensPath returns the file with the tokens of the server that records in dir.
func tokensPath(dir string) string { return filepath.Join(dir, "tokens") }

// notesPath returns the file with what people noted, of the server that records in dir.
func notesPath(dir string) string { return filepath.Join(dir, "notes") }

// worksheetsPath returns the file with the worksheets of the server that records in dir.
func worksheetsPath(dir string) string { return filepath.Join(dir, "worksheets") }

// sessionsPath returns the file with the sessions of browsers of the server that records in dir.
func sessionsPath(dir string) string { return filepath.Join(dir, "sessions") }

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
	var all []access.Token
	err := l.asOwner(func(dir string) (err error) {
		all, err = access.ReadTokens(tokensPath(dir))
		return err
	})
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
	may, err := access.ParseRole(t.May)
	if err != nil {
		return "", err
	}
	if err := l.checkRecorded(); err != nil {
		return "", err
	}
	secret := ""
	err = l.asOwner(func(dir string) (err error) {
		secret, err = access.AddToken(
			tokensPath(dir), access.Token{Name: t.Name, May: may, Made: t.Made, Ends: t.Until},
		)
		return err
	})
	return secret, withDirectoryHint(err)
}

// Remove implements term.Tokens.
func (l tokensFile) Remove(name string) error {
	if err := l.checkRecorded(); err != nil {
		return err
	}
	return withDirectoryHint(l.asOwner(func(dir string) error {
		return access.RemoveToken(tokensPath(dir), name)
	}))
}

// asOwner calls f with a path of the directory. Root becomes the owner of the directory for that
// time: the server reads the file as that user, and trusts no other one.
func (l tokensFile) asOwner(f func(dir string) error) error {
	info, err := os.Stat(l.dir)
	if err != nil || os.Geteuid() != 0 {
		return f(l.dir)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		return f(l.dir)
	}
	if here, err := os.Getwd(); err == nil {
		defer os.Chdir(here) //nolint:errcheck // nothing else is relative
	}
	if err := os.Chdir(l.dir); err != nil { // a directory above it may be closed to the owner
		return err
	}
	if err := errors.Join(
		syscall.Setresgid(-1, int(owner.Gid), -1), syscall.Setresuid(-1, int(owner.Uid), -1),
	); err != nil {
		return fmt.Errorf("act as the owner of %s: %w", l.dir, err)
	}
	err = f(".")
	return errors.Join(err, syscall.Setresuid(-1, 0, -1), syscall.Setresgid(-1, 0, -1))
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
