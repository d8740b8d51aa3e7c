// Package worker runs requests of strangers in processes of their own, which have no rights, little
// memory and limited time. The server has a Pool of workers; a worker calls Serve. A worker serves
// one request at a time. When it dies, the request fails with ErrEnded and the server goes on.
package worker
