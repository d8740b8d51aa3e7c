package supervise

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// variable names the process in the environment of a child.
const variable = "CULPRIT_PROCESS"

// Descriptors of a child: its control socket, and the files of its Process from firstFile on.
const (
	controlFile = 3
	firstFile   = 4
)

// Messages on a control socket. Each is one packet: its kind, then text.
const (
	msgPeer   = 'p' // to a child: a connection to its peer, as a descriptor
	msgFile   = 'f' // to a child: a text, and a descriptor in place of one of its files, or none
	msgNotify = 'n' // to the parent: a text for sd_notify(3)
	msgExit   = 'e' // to the parent: the child ends on purpose with this exit status
	msgWorker = 'w' // to the parent: start a worker of this name; its answer: the connection
	msgKill   = 'k' // to the parent: kill the worker of this name
	msgLeave  = 'l' // to a child: end, another process takes the place
	msgAgain  = 'a' // to the parent: the connection to the peer has failed; another one is wanted
)

// maxMessage is the size of a message in bytes.
const maxMessage = 4096

// Control connects a child to its parent.
type Control struct {
	Name  string // of the Process
	Files []*os.File
	// Replaced is called by Peer with a file that Supervisor.Replace has passed, or nil, and its
	// text. It must close the file. nil: nothing is called.
	Replaced func(file *os.File, text string)
	// Leave is called by Peer when Supervisor.Renew replaces this process. It must end the process
	// soon. nil: the process is killed.
	Leave func()
	conn  *net.UnixConn

	mu      sync.Mutex              // guards the fields below
	waiting map[string]chan started // for workers, by name
	last    uint64                  // name of the newest worker
}

// Attach returns the connection of this process to its parent; nil when no supervisor has started
// it. The caller must close the files. The error
// says that the environment names a process, and descriptor 3 is no socket.
func Attach() (*Control, error) {
	name, count, ok := strings.Cut(os.Getenv(variable), ":")
	if !ok {
		return nil, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", variable, err)
	}
	if err := os.Unsetenv(variable); err != nil {
		return nil, err
	}
	c := &Control{Name: name}
	if c.conn, err = fileConn(controlFile); err != nil {
		return nil, fmt.Errorf("%s is set, but no supervisor has started this process: %w",
			variable, err)
	}
	for i := range n {
		unix.CloseOnExec(firstFile + i)
		c.Files = append(c.Files, os.NewFile(uintptr(firstFile+i), name+strconv.Itoa(i)))
	}
	return c, nil
}

// fileConn returns the unix socket of a descriptor, which it closes.
func fileConn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close() //nolint:errcheck // FileConn has duplicated it
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("descriptor %d is no unix socket", fd), conn.Close())
	}
	return u, nil
}

// Peer waits for the next connection to the other process. Meanwhile it passes connections to
// workers on to StartWorker, and files to Replaced. The error means that the parent has ended or
// wants this process to end.
func (c *Control) Peer() (*net.UnixConn, error) {
	kind, text, fds, err := receive(c.conn)
	for err == nil && c.takes(kind, text, fds) {
		kind, text, fds, err = receive(c.conn)
	}
	if err != nil {
		return nil, err
	}
	if kind != msgPeer || len(fds) != 1 {
		for _, fd := range fds {
			_ = unix.Close(fd) // nobody expects it
		}
		return nil, fmt.Errorf("a message of kind %q with %d descriptors", kind, len(fds))
	}
	return fileConn(fds[0])
}

// takes handles a message that is no connection to the peer. It returns false for all others.
func (c *Control) takes(kind byte, text string, fds []int) bool {
	switch {
	case kind == msgWorker:
		c.takeWorker(text, fds)
		return true
	case kind == msgLeave && len(fds) == 0 && c.Leave != nil:
		c.Leave()
		return true
	case kind != msgFile || len(fds) > 1:
		return false
	}
	var file *os.File
	if len(fds) == 1 {
		file = os.NewFile(uintptr(fds[0]), "replaced")
	}
	if c.Replaced != nil {
		c.Replaced(file, text)
	} else if file != nil {
		_ = file.Close() // nobody expects it
	}
	return true
}

// Notify passes a text to systemd: sd_notify(3). The error means that the parent has ended.
func (c *Control) Notify(text string) error { return send(c.conn, msgNotify, text, nil) }

// Reconnect asks for another connection between the processes, which Peer returns in both. It is
// for the process that has closed the one before because the peer did not follow the protocol. The
// error means that the parent has ended.
func (c *Control) Reconnect() error { return send(c.conn, msgAgain, "", nil) }

// Exit reports that this process ends with an exit status on purpose, so that it is not started
// again. The error means that the parent has ended.
func (c *Control) Exit(status int) error {
	return send(c.conn, msgExit, strconv.Itoa(status), nil)
}

// send sends one message. It does not keep the file.
func send(c *net.UnixConn, kind byte, text string, file *os.File) error {
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	b := append([]byte{kind}, text...)
	if kind == msgFile {
		b = b[:min(len(b), maxMessage)] // a reason for people
	}
	if len(b) > maxMessage {
		return fmt.Errorf("a message of %d bytes", len(b))
	}
	_, _, err := c.WriteMsgUnix(b, rights, nil)
	return err
}

// receive waits for a message. The caller must close the descriptors.
func receive(c *net.UnixConn) (kind byte, text string, fds []int, err error) {
	b, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4*4))
	n, m, _, _, err := c.ReadMsgUnix(b, rights)
	if errors.Is(err, unix.ECONNRESET) {
		// The other end has closed without reading all that was sent to it. The kernel reports that
		// once, before what the other end has sent.
		n, m, _, _, err = c.ReadMsgUnix(b, rights)
	}
	if err != nil {
		return 0, "", nil, err
	}
	if n == 0 {
		return 0, "", nil, net.ErrClosed
	}
	all, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil {
		return 0, "", nil, err
	}
	for i := range all {
		got, err := unix.ParseUnixRights(&all[i])
		if err != nil {
			return 0, "", nil, err
		}
		for _, fd := range got {
			unix.CloseOnExec(fd)
		}
		fds = append(fds, got...)
	}
	return b[0], string(b[1:n]), fds, nil
}

// pair returns two connected unix sockets. The caller must close both.
func pair(kind int) (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "pair"), os.NewFile(uintptr(fds[1]), "pair"), nil
}
