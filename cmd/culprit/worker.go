package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"culprit/confine"
	"culprit/supervise"
	"culprit/view/prom"
	"culprit/view/web"
	"culprit/worker"
)

// workerHeap is the size of the heap in bytes above which a worker collects garbage more often.
const workerHeap = worker.MaxMemory * 5 / 8

// workerGrowth is the growth of its heap between collections in percent: a worker has little that
// lives longer than a request.
const workerGrowth = 800

// workerStarter returns a function that asks the supervisor for workers.
func workerStarter(control *supervise.Control) worker.Starter {
	return func(ctx context.Context) (*worker.Process, error) {
		conn, kill, err := control.StartWorker(ctx)
		if err != nil {
			return nil, err
		}
		return &worker.Process{Conn: conn, Kill: kill}, nil
	}
}

// workerJobs returns the jobs of a worker.
func workerJobs() map[string]worker.Job {
	return map[string]worker.Job{
		prom.JobName: prom.NewJob(version, true), web.ProfileJob: web.NewProfileJob(0),
		web.DiffJob: web.NewDiffJob(),
	}
}

// runWorker works on requests of the server until it closes the connection.
func runWorker(conn *net.UnixConn) error { return runWorkerWith(conn, workerJobs()) }

// runWorkerWith is runWorker with other jobs.
func runWorkerWith(conn *net.UnixConn, jobs map[string]worker.Job) error {
	// Signals of the terminal's process group are for the server.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	debug.SetMemoryLimit(workerHeap)
	debug.SetGCPercent(workerGrowth)
	debug.SetTraceback("none") // the supervisor reports the first line
	if err := confineWorker(); err != nil {
		return err
	}
	err := worker.Serve(conn, jobs, processTime)
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// confineWorker takes from a worker all but its connection. It gets no more than the server has.
func confineWorker() error {
	uid, gid := confine.Account()
	if err := confine.DropRootWhereAllowed(uid, gid); err != nil {
		return err
	}
	return errors.Join(
		confine.LimitMemory(worker.MaxMemory), confine.LimitCPU(worker.MaxCPU),
		confine.NoFiles(), confine.WorkerCalls(),
	)
}
