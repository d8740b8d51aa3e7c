package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

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

// listenError returns the error of an address that can't be listened on.
func listenError(address string, err error) error {
	return fmt.Errorf("listen on %s: %w", address, err)
}

// FromFile returns the listener of a file that another process has made with TCP, or with Socket
// if socket is set. The caller must close both. The error says that it is no listener.
func FromFile(f *os.File, socket bool) (net.Listener, error) {
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("take over the listener %s: %w", f.Name(), err)
	}
	if !socket {
		return newListener(l, DefaultLimits), nil
	}
	own := newListener(l, Limits{Connections: DefaultLimits.Connections})
	own.sameUser = true
	return own, nil
}

// File returns the file of a listener that TCP or Socket has made, for another
// process. The caller must close both. Closing a listener of Socket removes its path. The
// error says that l has no file.
func File(l net.Listener) (*os.File, error) {
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

// Socket listens on a unix socket at a path. It accepts processes of the same user and of
// root only, by the credentials that the kernel reports. It replaces the socket of a server that
// has ended, and fails if that server still runs. The caller must close the listener.
func Socket(path string) (net.Listener, error) {
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
	own := newListener(l, Limits{Connections: DefaultLimits.Connections})
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
