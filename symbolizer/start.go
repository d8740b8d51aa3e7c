package symbolizer

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// inherited is the descriptor of the connection in a process that a Starter has started.
const inherited = 3

// Connection returns the connection of this process to the one that has started it. The error says
// that there is none.
func Connection() (*net.UnixConn, error) {
	f := os.NewFile(inherited, "socket")
	defer f.Close() //nolint:errcheck // FileConn has duplicated it
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("no process has started this symbolizer: %w", err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("descriptor %d is no unix socket", inherited)
	}
	return conn, nil
}

// StartSelf returns a Starter that starts this executable with an environment, in which the caller
// says what the process is to be.
func StartSelf(environment []string) Starter {
	return func(context.Context) (*net.UnixConn, func(), error) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args[0] = os.Args[0]
		cmd.Env = environment
		conn, err := startCommand(cmd)
		return conn, func() {
			if cmd.Process != nil {
				_ = cmd.Process.Kill() // it may have ended
			}
		}, err
	}
}

// startCommand starts a command with one end of a socket pair as descriptor 3, and returns the
// connection to it, which the caller must close. It waits for the end of the command.
func startCommand(cmd *exec.Cmd) (*net.UnixConn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket pair: %w", err)
	}
	mine, its := os.NewFile(uintptr(fds[0]), "mine"), os.NewFile(uintptr(fds[1]), "its")
	defer mine.Close() //nolint:errcheck // FileConn has duplicated it
	defer its.Close()  //nolint:errcheck // the command has its own
	conn, err := net.FileConn(mine)
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{its}
	if err := cmd.Start(); err != nil {
		_ = conn.Close() // nobody uses it
		return nil, err
	}
	go cmd.Wait() //nolint:errcheck // the connection says that it has ended
	return conn.(*net.UnixConn), nil
}
