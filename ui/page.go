// Package ui holds the page: TypeScript and Svelte in data (what comes from the server), draw (canvases), state (the view in
// the URL) and parts (what a person sees), built by Vite into dist, which this package carries as files. It serves nothing
// and knows of no server: view/web is handed its files.
package ui

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Files gives the built page: index.html, what it loads by relative names, and beside each file of text its precompressed
// forms .gz and .br. A program that was built without Node has a README there and no index.html.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // dist is embedded: the directive above names it
	}
	return files
}
