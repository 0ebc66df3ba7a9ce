package translate

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// A maker makes requests of what both dialects can say, in the form in which they are
// written.
type maker struct{ *rand.Rand }

func (m maker) literal() []byte {
	pieces := []string{`hi`, `\u00e9`, `é`, `\ud83d\ude00`, `😀`, `\"`, `\\`, `\/`, ` `, `\n`, `<&>`, `null`, `{}`}
	s := `"x`
	for range m.IntN(6) {
		s += pieces[m.IntN(len(pieces))]
	}
	return []byte(s + `"`)
}

func (m maker) id() []byte { return []byte(`"call_` + strconv.Itoa(m.IntN(1e6)) + `"`) }

// texts is a string or a list of texts.
func (m maker) texts() content {
	c := content{plain: m.IntN(2) == 0, parts: []part{{text: m.literal()}}}
	for !c.plain && m.IntN(2) == 0 {
		c.parts = append(c.parts, part{text: m.literal()})
	}
	return c
}

// says is a list of texts and pictures.
func (m maker) says() (c content) {
	for range 1 + m.IntN(3) {
		switch m.IntN(3) {
		case 0:
			c.parts = append(c.parts, part{text: m.literal()})
		case 1:
			c.parts = append(c.parts, part{picture: &picture{media: "image/png", data: "iVBORw0KGgo="}})
		default:
			c.parts = append(c.parts, part{picture: &picture{url: []byte(`"https:\/\/e.com/a.png"`)}})
		}
	}
	return c
}

func (m maker) assistant() turn {
	t := turn{assistant: true}
	for range m.IntN(3) {
		arguments := []string{`{}`, `{ "a" : 1.0, "b":[1e3,"\u0061"] }`, "{\"n\":\n9007199254740993}"}
		t.calls = append(t.calls, call{m.id(), []byte(`"weather"`), []byte(arguments[m.IntN(3)])})
	}
	if t.content = m.texts(); t.calls != nil {
		t.content.plain = len(t.content.parts) == 1
		if m.IntN(2) == 0 {
			t.content = content{}
		}
	}
	return t
}

func (m maker) ask() *ask {
	a := &ask{most: []byte(strconv.Itoa(1 + m.IntN(1e6))), tools: []tool{{name: []byte(`"weather"`), schema: []byte(`{ "type":"object", "x":1.0}`)}}}
	if m.IntN(2) == 0 {
		a.system = m.texts()
	}
	for range m.IntN(4) {
		a.turns = append(a.turns, turn{content: m.texts()}, m.assistant())
		if calls := a.turns[len(a.turns)-1].calls; calls != nil {
			t := turn{content: m.says()}
			for _, c := range calls {
				t.results = append(t.results, result{c.id, m.texts()})
			}
			a.turns = append(a.turns, t, m.assistant())
			a.turns[len(a.turns)-1].calls = nil
			a.turns[len(a.turns)-1].content = m.texts()
		}
	}
	a.turns = append(a.turns, turn{content: m.says()})
	if kind := []string{"", "none", "auto", "any", "tool"}[m.IntN(5)]; kind != "" {
		a.choice.kind = kind
		if kind == "tool" {
			a.choice.name = a.tools[0].name
		}
		if kind != "none" && m.IntN(2) == 0 {
			a.parallel = []byte("false")
		}
	}
	if m.IntN(2) == 0 {
		a.temperature, a.topP, a.user, a.stream = []byte("0.50"), []byte("1e-1"), m.literal(), []byte("false")
	}
	return a
}

func TestRoundTrips(t *testing.T) {
	seed := rand.Uint64()
	m := maker{rand.New(rand.NewPCG(seed, 0))}
	for range 2000 {
		first, err := m.ask().writeChat(&Options{Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		there, err := put(chat, string(first))
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, first, err)
		}
		back, err := put(messages, there)
		if err != nil || back != string(first) {
			t.Fatalf("B-33 seed %d: %v\n%s\nbecame %s\nand then %s", seed, err, first, there, back)
		}
		if again, err := put(chat, back); err != nil || again != there {
			t.Fatalf("B-33 seed %d: %v\n%s\nbecame %s", seed, err, there, again)
		}
	}
}
