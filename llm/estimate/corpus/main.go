// Command corpus counts the tokens of the texts below ../testdata with real tokenizers and
// writes what it finds beside them: testdata/tuning.json and testdata/held-out.json. It is a
// module of its own because the tokenizers' vocabularies are 12 MB of every binary that has
// them.
//
//	cd llm/estimate/corpus && go run .
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
)

// A Piece is what a request might carry: some lines of one text.
type Piece struct {
	File   string `json:"file"`
	Bytes  int    `json:"bytes"`
	O200k  int    `json:"o200k"`
	CL100k int    `json:"cl100k"`
}

// Pieces end with a line, and have about as many bytes; what is left of a text has half as
// many at least, or belongs to the piece before.
const pieceSize = 700

func main() {
	log.SetFlags(0)
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	for _, set := range []string{"tuning", "held-out"} {
		if err := count(filepath.Join("..", "testdata", set)); err != nil {
			log.Fatal("corpus: ", err)
		}
	}
}

// count writes the counts of all texts of a directory into a file beside it.
func count(dir string) error {
	o200k, err := tiktoken.GetEncoding(tiktoken.MODEL_O200K_BASE)
	if err != nil {
		return err
	}
	cl100k, err := tiktoken.GetEncoding(tiktoken.MODEL_CL100K_BASE)
	if err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for i, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for j, piece := range cut(text) {
			line, err := json.Marshal(Piece{File: filepath.Base(name), Bytes: len(piece),
				O200k: len(o200k.EncodeOrdinary(string(piece))), CL100k: len(cl100k.EncodeOrdinary(string(piece)))})
			if err != nil {
				return err
			}
			separator := ",\n"
			if i == 0 && j == 0 {
				separator = "[\n"
			}
			fmt.Fprintf(&out, "%s%s", separator, line)
		}
	}
	out.WriteString("\n]\n")
	return os.WriteFile(dir+".json", out.Bytes(), 0o644)
}

// cut cuts a text into pieces.
func cut(text []byte) (pieces [][]byte) {
	for len(text) > 0 {
		n := len(text)
		if n >= pieceSize*3/2 {
			if end := bytes.IndexByte(text[pieceSize:], '\n'); end >= 0 && n-(pieceSize+end+1) >= pieceSize/2 {
				n = pieceSize + end + 1
			}
		}
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}
