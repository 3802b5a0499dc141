package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"

	"github.com/leasehold/leasehold/internal/api"
)

//go:embed assets
var assetFiles embed.FS

const assetPrefix = "/assets/"

// assetHashes are the files by name, each with the hash of its contents, which its path has: so browsers keep it for ever.
var assetHashes = hashAssets() //nolint:gochecknoglobals // a constant

func hashAssets() map[string]string {
	const digits = 12
	hashes := map[string]string{}
	list, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // it is compiled in
	}
	for _, f := range list {
		text, err := assetFiles.ReadFile("assets/" + f.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		hashes[f.Name()] = hex.EncodeToString(sum[:])[:digits]
	}
	return hashes
}

// assetPath is where a file is served.
func assetPath(name string) string { return assetPrefix + assetHashes[name] + "/" + name }

// serveAsset answers with a file.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	text, err := assetFiles.ReadFile("assets/" + path.Base(name))
	if err != nil || r.PathValue("hash") != assetHashes[name] {
		api.Problem(w, http.StatusNotFound, "nothing is served at "+api.Quote(r.URL.Path))
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(text) //nolint:gosec // it was compiled in. An error here is the client's having gone away
}
