package main

import (
	"os"
	"os/signal"
	"slices"
	"strings"

	"culprit/confine"
	"culprit/kernel"
	"culprit/profile"
	"culprit/supervise"
	"culprit/symbol"
	"culprit/symbolizer"

	"golang.org/x/sys/unix"
)

// symbolizerName is the name of the process that reads symbols.
const symbolizerName = "symbolizer"

// runSymbolizer reads symbols for the process that has started this one until that closes the
// connection. The error says that it cannot give up its privileges, or that the connection is
// wrong.
func runSymbolizer() error {
	// Signals of the terminal's process group are for the tool, which asks for names at its end.
	signal.Ignore(os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	setProcessName("culprit-symbols")
	// The kernel ends it before others. Without the file it is ended like others.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("900"), 0)
	conn, err := symbolizer.Connection()
	if err != nil {
		return err
	}
	s := symbolizer.NewServer()
	if err := confineSymbolizer(); err != nil {
		return err
	}
	return s.Serve(conn)
}

// confineSymbolizer takes from this process all but what is open.
func confineSymbolizer() error {
	if err := confine.DropRootWhereAllowed(confine.NoAccount()); err != nil {
		return err
	}
	if err := confine.LimitMemory(symbolizer.MemoryLimit); err != nil {
		return err
	}
	if err := confine.NoFiles(); err != nil {
		return err
	}
	return confine.SymbolizerCalls()
}

// storedNames returns what names the addresses of recorded profiles with the files of this machine.
func storedNames() profile.Namer {
	files, _ := toolFiles() // it ends with this process
	return symbol.NewStored(kernel.Root{}, files)
}

// toolFiles returns what reads files of other users for a tool, and the function that ends it. As
// root that is a process without privileges, which starts when it is needed; else nil: this
// process has no more rights than the caller.
func toolFiles() (files *symbol.Files, end func()) {
	if os.Geteuid() != 0 || os.Getenv(oneProcess) != "" {
		return nil, func() {}
	}
	environment := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.Contains(name, "TOKEN") || strings.Contains(name, "PASSWORD")
	})
	c := symbolizer.NewClient(
		symbolizer.StartSelf(append(environment, supervise.Environment(symbolizerName))),
		func(string) {}, // notes of the names say it
	)
	return symbol.NewToolFiles(c), func() { _ = c.Close() } // it is nil
}
