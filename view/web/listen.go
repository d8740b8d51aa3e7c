package web

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// leastToken is the length from which a token can't be guessed: 128 bits in hexadecimal.
const leastToken = 32

// MayListen says whether a server may listen on an address: a loopback one always; one that others can reach only with TLS and a token that
// can't be guessed. The error says what is missing. A name counts as loopback only when it is localhost: what others
// resolve to may change.
func MayListen(address string, tls bool, token string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("listen on %q: write ADDRESS:PORT, as 127.0.0.1:7410 or [::1]:7410", address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("listen on %q: %q is no port", address, port)
	}
	if len(token) < leastToken {
		return fmt.Errorf("listen on %s: the token is shorter than %d characters", address, leastToken)
	}
	if strings.EqualFold(host, "localhost") {
		return nil
	}
	ip := net.ParseIP(strings.SplitN(host, "%", 2)[0])
	if ip != nil && ip.IsLoopback() || tls {
		return nil
	}
	return fmt.Errorf("listen on %s: others can reach this address, so it needs TLS: --tls-cert and --tls-key; or listen on 127.0.0.1 and forward the port: ssh -L 7410:127.0.0.1:7410 HOST", address)
}

// ReadToken gives the token in a file, and makes file and token when there is none. It refuses a file that others than its owner may read,
// and a token that can be guessed.
func ReadToken(path string) (token string, made bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		random := make([]byte, 24)
		_, _ = rand.Read(random) // never fails
		token = hex.EncodeToString(random)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return "", false, fmt.Errorf("make the token: %w", err)
		}
		_, err = f.WriteString(token + "\n")
		if err := errors.Join(err, f.Close()); err != nil {
			return "", false, fmt.Errorf("write the token: %w", err)
		}
		return token, true, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read the token: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", false, fmt.Errorf("read the token: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", false, fmt.Errorf("read the token: others may read %s: chmod 600, or remove it to get another", path)
	}
	token = strings.TrimSpace(string(b))
	if len(token) < leastToken || strings.ContainsAny(token, " \t\r\n") {
		return "", false, fmt.Errorf("read the token: %s holds none of %d characters: remove it to get another", path, leastToken)
	}
	return token, false, nil
}

// mostConnections is how many connections a listener keeps open: a viewer takes one, and the many who say nothing may not take all memory.
const mostConnections = 8192

// Listen opens a TCP address with a bound on the number of connections; those beyond it are closed at once.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return &listener{Listener: l, most: mostConnections}, nil
}

// ListenSocket opens a unix socket at the path for processes of the same user and of root, and of nobody else: the kernel is asked who the peer is.
// A socket that nobody listens on any more is replaced; one that is alive is an error.
func ListenSocket(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("listen on %s: it is there and is no socket", path)
		}
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = c.Close() // it was only a question
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
	return &listener{Listener: l, most: mostConnections, peer: true}, nil
}

// listener bounds the connections, and lets only some peers in.
type listener struct {
	net.Listener
	most int64
	open atomic.Int64
	peer bool // only of the same user or of root
}

// Accept gives the next connection that may come in.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.peer && !mayTalk(c, os.Geteuid()) || l.open.Load() >= l.most {
			_ = c.Close() // it never was ours
			continue
		}
		l.open.Add(1)
		return &connection{Conn: c, closed: func() { l.open.Add(-1) }}, nil
	}
}

// connection counts itself out once.
type connection struct {
	net.Conn
	once   sync.Once
	closed func()
}

// Close closes the connection.
func (c *connection) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}

// mayTalk says whether the process at the other end of a unix socket is of the user or of root.
func mayTalk(c net.Conn, user int) bool {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return false
	}
	allowed := false
	err = raw.Control(func(fd uintptr) {
		cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		allowed = err == nil && (cred.Uid == 0 || int(cred.Uid) == user)
	})
	return err == nil && allowed
}
