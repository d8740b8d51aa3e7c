package web

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"culprit/view/web/access"
)

// page is the built page: its files by name. They are read per request, so that memory holds no
// second copy of them.
type page map[string]*file

type file struct {
	kind      string                              // media type
	read      func(suffix string) ([]byte, error) // suffix: "", ".gz" or ".br"
	gzip, br  bool                                // there is a compressed file
	tag       string                              // ETag; weak, since all encodings share it
	immutable bool                                // its name has a hash of its contents
}

// contentTypes are the media types of a page's files. The machine's own list may be incomplete, and
// nosniff stops a browser from guessing.
//
// table: file name extension to media type
var contentTypes = map[string]string{
	".html":        "text/html; charset=utf-8",
	".js":          "text/javascript; charset=utf-8",
	".mjs":         "text/javascript; charset=utf-8",
	".css":         "text/css; charset=utf-8",
	".json":        "application/json",
	".map":         "application/json",
	".webmanifest": "application/manifest+json",
	".svg":         "image/svg+xml",
	".png":         "image/png",
	".ico":         "image/x-icon",
	".woff2":       "font/woff2",
	".wasm":        "application/wasm",
	".txt":         "text/plain; charset=utf-8",
}

const unbuilt = `<!doctype html><html lang="en"><meta charset="utf-8"><title>culprit</title>` +
	`<meta name="viewport" content="width=device-width"><h1>culprit</h1>` +
	`<p>This binary was built without the page: <code>make build</code> builds one with it. ` +
	`The API works, at <code>api/</code>.</p></html>` + "\n"

// newPage returns the page of some files. Without index.html it is a page that says how to build
// one.
func newPage(files fs.FS) page {
	p := page{}
	if files != nil {
		// Embedded files can always be read; others that can't are skipped.
		_ = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasPrefix(path.Base(name), ".") {
				return nil
			}
			ext := path.Ext(name)
			if data, err := fs.ReadFile(files, name); err == nil && contentTypes[ext] != "" {
				f := p.add(name, contentTypes[ext], data)
				f.immutable = strings.HasPrefix(
					name, "assets/",
				) // Vite puts a hash into these names
				f.read = func(suffix string) ([]byte, error) {
					return fs.ReadFile(files, name+suffix)
				}
				has := func(suffix string) bool {
					_, err := fs.Stat(files, name+suffix)
					return err == nil
				}
				f.gzip, f.br = has(".gz"), has(".br")
			}
			return nil
		})
	}
	if p["index.html"] == nil {
		p = page{}
		f := p.add("index.html", contentTypes[".html"], []byte(unbuilt))
		f.read = func(string) ([]byte, error) { return []byte(unbuilt), nil }
	}
	return p
}

func (p page) add(name, kind string, data []byte) *file {
	sum := sha256.Sum256(data)
	f := &file{kind: kind, tag: `W/"` + hex.EncodeToString(sum[:12]) + `"`}
	p[name] = f
	return f
}

func (p page) register(mux *http.ServeMux, g *guard) {
	handle := func(pattern, path string, serve http.HandlerFunc) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := g.check(r, path); err != nil {
				refuse(w, err)
				return
			}
			serve(w, r)
		})
	}
	for name, f := range p {
		handle("/"+name, access.PageFile, f.serve)
	}
	handle("/{$}", "/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("token") { // it has the cookie: hide the token from the address
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Location", "./")
			w.WriteHeader(http.StatusSeeOther)
			return
		}
		p["index.html"].serve(w, r)
	})
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("ETag", f.tag)
	h.Set("Vary", "Accept-Encoding")
	if f.immutable {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "private, no-cache")
	}
	for _, tag := range strings.Split(r.Header.Get("If-None-Match"), ",") {
		if tag = strings.TrimSpace(tag); tag == f.tag || tag == "*" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	suffix, can := "", r.Header.Get("Accept-Encoding")
	switch {
	case f.br && accepts(can, "br"):
		suffix = ".br"
		h.Set("Content-Encoding", "br")
	case f.gzip && accepts(can, "gzip"):
		suffix = ".gz"
		h.Set("Content-Encoding", "gzip")
	}
	data, err := f.read(suffix)
	if err != nil { // an embedded file can always be read
		h.Del("Content-Encoding")
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // fails only if the client is gone
}
