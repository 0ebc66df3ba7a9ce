package estimate_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/estimate"
)

// mixes are what tenants send: kinds of texts that were put aside. Nobody's are alike.
var mixes = []struct {
	tenant string
	kinds  []string
}{
	{"letters", []string{"english.txt", "markdown.txt", "chat.txt"}},
	{"programs", []string{"go.txt", "typescript.txt", "python.txt", "sql.txt", "yaml.txt", "indented.txt", "tools.txt"}},
	{"records", []string{"records.txt", "csv.txt", "numbers.txt", "logs.txt", "uuids.txt"}},
	{"east", []string{"chinese.txt", "japanese.txt", "korean.txt", "thai.txt"}},
	{"europe", []string{"german.txt", "french.txt", "spanish.txt", "russian.txt"}},
	{"south", []string{"arabic.txt", "hindi.txt", "english.txt", "emoji.txt"}},
	{"secrets", []string{"base64.txt", "hex.txt", "digits.txt", "uuids.txt", "python.txt"}},
}

// The stream: each tenant asks two models, whose tokenizers differ.
const (
	streamSeed   = 20261130
	streamLength = 150 // requests of one tenant to one model
	streamPieces = 16  // at most, in one request: 11 KB or so
	frame        = 4   // tokens around a message, and a few before the answer
	primer       = 3
)

// An asked is one request of the stream.
type asked struct {
	key    estimate.Key
	pieces []piece
	used   int64 // what the provider says
}

func stream(t *testing.T) (list []asked) {
	pieces := corpus(t, "held-out")
	r := rand.New(rand.NewPCG(streamSeed, 0))
	for range streamLength {
		for _, mix := range mixes {
			var own []piece
			for _, p := range pieces {
				if slices.Contains(mix.kinds, p.File) {
					own = append(own, p)
				}
			}
			for _, model := range []string{"o200k", "cl100k"} {
				a := asked{key: estimate.Key{Tenant: mix.tenant, Model: model}, used: primer}
				for range 1 + r.IntN(streamPieces) {
					p := own[r.IntN(len(own))]
					a.pieces = append(a.pieces, p)
					a.used += frame + int64(p.O200k)
					if model == "cl100k" {
						a.used += int64(p.CL100k - p.O200k)
					}
				}
				list = append(list, a)
			}
		}
	}
	return list
}

// request is the request as a method counts it: by its text, or as tokens that the method has
// counted.
func (a *asked) request(m method) *dialect.Request {
	q := &dialect.Request{Route: dialect.Route{Dialect: dialect.OpenAI}}
	for i := range a.pieces {
		q.Parts = append(q.Parts, dialect.Part{Kind: dialect.Turn})
		if m.name == "classes" {
			q.Parts = append(q.Parts, dialect.Part{Kind: dialect.Text, Raw: a.pieces[i].quoted()})
		} else {
			q.Parts = append(q.Parts, dialect.Part{Kind: dialect.IDs, N: int64(m.count(a.pieces[i].text))})
		}
	}
	return q
}

// A score is how a method did on the requests to one model.
type score struct {
	raw, corrected []float64 // errors
	under          int       // requests that used more than was reserved
	reserved, used int64
}

// TestErrorOnAStream estimates a stream of requests, raw and with what was learned so far of
// each tenant and model, from the first request on. It measures what README.md shows.
func TestErrorOnAStream(t *testing.T) {
	list := stream(t)
	t.Logf("%d requests, seed %d", len(list), streamSeed)
	for _, m := range methods {
		e := estimate.New(estimate.Options{})
		scores := map[string]*score{"o200k": {}, "cl100k": {}}
		for i := range list {
			a := &list[i]
			s := scores[a.key.Model]
			in := e.Input(a.key, a.request(m))
			s.raw = append(s.raw, float64(in.Counted)/float64(a.used)-1)
			s.corrected = append(s.corrected, float64(in.Tokens)/float64(a.used)-1)
			if in.Reserve < a.used {
				s.under++
			}
			s.reserved, s.used = s.reserved+in.Reserve, s.used+a.used
			e.Learn(a.key, in, a.used, 0)
		}
		for _, model := range []string{"o200k", "cl100k"} {
			scores[model].check(t, m.name, model)
		}
	}
}

// check prints a score, and holds ours to bounds that leave room.
func (s *score) check(t *testing.T, method, model string) {
	median, p95 := spread(s.raw)
	learned, learned95 := spread(s.corrected)
	under, more := float64(s.under)/float64(len(s.raw)), float64(s.reserved)/float64(s.used)-1
	row(t, "| %s | %s | %.1f %% / %.1f %% | %.1f %% / %.1f %% | %.1f %% | %+.1f %% |", model, method,
		100*median, 100*p95, 100*learned, 100*learned95, 100*under, 100*more)
	if method != "classes" {
		return
	}
	most := map[string]float64{"o200k": 0.08, "cl100k": 0.30}[model] // the older one cuts some scripts into four times the tokens
	if learned > 0.04 || learned95 > most || learned95 > p95 {
		t.Errorf("%s: corrected, the error has a median of %.3f and a 95th percentile of %.3f (%.3f raw); want at most 0.04, %.2f and raw",
			model, learned, learned95, p95, most)
	}
	if under > 0.12 || more < 0 || more > 0.15 {
		t.Errorf("%s: %.3f of the requests used more than was reserved, which was %+.3f more in all; want at most 0.12, and 0 to 0.15", model, under, more)
	}
}
