// Package ui contains the page as files. data queries the server and decodes, draw draws on
// canvases, state is the view in the URL, parts are the components. Vite builds them into dist,
// which is embedded. The package serves nothing: view/web gets its files.
package ui

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Files returns the built page: index.html, the files that it loads by relative names, and
// compressed copies of text files, .gz and .br. A program that was built without Node has a README
// and no index.html.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // dist is embedded: the directive above names it
	}
	return files
}

// File returns the script and the style of the page in one file: a document with a profile that
// loads nothing. Both are "" in a program that was built without Node.
func File() (script, style string) {
	read := func(name string) string {
		b, err := dist.ReadFile("dist/file/" + name)
		if err != nil {
			return "" // built without Node
		}
		return string(b)
	}
	return read("file.js"), read("file.css")
}
