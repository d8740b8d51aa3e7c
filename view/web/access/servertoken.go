package access

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"culprit/trusted"
)

// MinSecret is the length of a secret that can't be guessed: 128 bits in hexadecimal.
const MinSecret = 32

// ReadServerToken returns the secret of the server's own token in a file. If there is no file, it
// makes one with a random secret. It fails if other users may read the file or own it, if it is a
// symbolic link, and if the secret can be guessed.
func ReadServerToken(path string) (secret string, made bool, err error) {
	f, err := trusted.Open(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		secret, err = makeServerToken(path)
		return secret, err == nil, err
	}
	if err != nil {
		return "", false, fmt.Errorf("read the token: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return "", false, fmt.Errorf("read the token: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", false, fmt.Errorf("read the token: other users may read %s: "+
			"chmod 600, or remove it to make another", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxTokenFile))
	if err != nil {
		return "", false, fmt.Errorf("read the token: %w", err)
	}
	secret = strings.TrimSpace(string(b))
	if len(secret) < MinSecret || strings.ContainsAny(secret, " \t\r\n") {
		return "", false, fmt.Errorf("read the token: %s has no token of at least %d characters: "+
			"remove it to make another", path, MinSecret)
	}
	return secret, false, nil
}

// maxTokenFile limits the bytes that are read of the file of the server's own token.
const maxTokenFile = 4096

func makeServerToken(path string) (string, error) {
	secret := randomSecret()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("make the token: %w", err)
	}
	_, err = f.WriteString(secret + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("write the token: %w", err)
	}
	return secret, nil
}
