package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed page
var pageFiles embed.FS

// asset is one file of the page, with the tag that tells a browser whether it is the
// one that it has.
type asset struct {
	body      []byte
	mediaType string
	tag       string
}

// assets are the page's files by the path they are served at. The page works without any other server: no
// script, style or font comes from elsewhere.
var assets = loadAssets()

func loadAssets() map[string]asset {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	all := map[string]asset{}
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(files, name)
		sum := sha256.Sum256(body)
		all["/"+name] = asset{body, mediaTypeOf(name), `"` + hex.EncodeToString(sum[:8]) + `"`}
		return err
	})
	if err != nil {
		panic(err)
	}
	all["/{$}"] = all["/index.html"] // "/" alone, in the mux's words
	return all
}

// mediaTypeOf does not ask the machine's own tables, which differ.
func mediaTypeOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/html; charset=utf-8"
}

// serve answers with the file, or says that the browser has it already.
func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", a.mediaType)
	w.Header().Set("ETag", a.tag)
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
}
