package web

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"culprit/trusted"
)

// minToken is the length of a secret that can't be guessed: 128 bits in hexadecimal.
const minToken = 32

// CheckListen returns an error unless a server with the token may listen on an address: the error
// of CheckAddress, or that the token is too short.
func CheckListen(address string, tls bool, token string) error {
	if len(token) < minToken {
		return fmt.Errorf("listen on %s: the token is shorter than %d characters",
			address, minToken)
	}
	return CheckAddress(address, tls)
}

// CheckAddress returns an error unless a server may listen on an address. A loopback address needs
// no TLS; one that other machines can reach does. Of names, only localhost counts as loopback,
// since the address of another name may change.
func CheckAddress(address string, tls bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("listen on %q: write ADDRESS:PORT, such as 127.0.0.1:7410 or [::1]:7410",
			address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("listen on %q: %q is not a port", address, port)
	}
	if strings.EqualFold(host, "localhost") {
		return nil
	}
	ip := net.ParseIP(strings.SplitN(host, "%", 2)[0])
	if ip != nil && ip.IsLoopback() || tls {
		return nil
	}
	return fmt.Errorf("listen on %s: other machines can reach this address, so it needs TLS: "+
		"--tls-cert and --tls-key; or listen on 127.0.0.1 and forward the port: "+
		"ssh -L 7410:127.0.0.1:7410 HOST", address)
}

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
	if len(secret) < minToken || strings.ContainsAny(secret, " \t\r\n") {
		return "", false, fmt.Errorf("read the token: %s has no token of at least %d characters: "+
			"remove it to make another", path, minToken)
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

// listenError returns the error of an address that can't be listened on.
func listenError(address string, err error) error {
	return fmt.Errorf("listen on %s: %w", address, err)
}

// ListenFile returns the listener of a file that another process has made with Listen, or with
// ListenSocket if socket is set. The caller must close both. The error says that it is no listener.
func ListenFile(f *os.File, socket bool) (net.Listener, error) {
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("take over the listener %s: %w", f.Name(), err)
	}
	if !socket {
		return newListener(l, maxConnections, maxStrangers, maxPerPeer), nil
	}
	own := newListener(l, maxConnections, 0, 0)
	own.sameUser = true
	return own, nil
}

// ListenerFile returns the file of a listener that Listen or ListenSocket has made, for another
// process. The caller must close both. Closing a listener of ListenSocket removes its path. The
// error says that l has no file.
func ListenerFile(l net.Listener) (*os.File, error) {
	own, ok := l.(*listener)
	if !ok {
		return nil, fmt.Errorf(
			"pass on the listener of %s: it is no listener of this package", l.Addr(),
		)
	}
	f, ok := own.Listener.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("pass on the listener of %s: it has no file", l.Addr())
	}
	return f.File()
}

// ListenSocket listens on a unix socket at a path. It accepts processes of the same user and of
// root only, by the credentials that the kernel reports. It replaces the socket of a server that
// has ended, and fails if that server still runs. The caller must close the listener.
func ListenSocket(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("listen on %s: it exists and is not a socket", path)
		}
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			defer c.Close() //nolint:errcheck // nothing was sent
			if cred := peerOf(c); cred != nil {
				return nil, fmt.Errorf("listen on %s: another server is running, process %d",
					path, cred.Pid)
			}
			return nil, fmt.Errorf("listen on %s: another server is running", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", path, err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, errors.Join(err, l.Close()))
	}
	own := newListener(l, maxConnections, 0, 0)
	own.sameUser = true
	return own, nil
}

// isPeerOf reports whether the peer of a unix socket is a process of the user or of root.
func isPeerOf(c net.Conn, user int) bool {
	cred := peerOf(c)
	return cred != nil && (cred.Uid == 0 || int(cred.Uid) == user)
}

// peerOf returns the process at the other end of a unix socket; nil: unknown. That of a listener is
// the process that listened first. See unix(7), SO_PEERCRED.
func peerOf(c net.Conn) *syscall.Ucred {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil
	}
	var cred *syscall.Ucred
	err = raw.Control(func(fd uintptr) { // cred is nil after an error
		cred, _ = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil {
		return nil
	}
	return cred
}
