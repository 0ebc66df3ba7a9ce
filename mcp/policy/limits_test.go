package policy

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestIntersect(t *testing.T) {
	values := func(list ...string) (v []json.RawMessage) {
		for _, s := range list {
			v = append(v, json.RawMessage(s))
		}
		return v
	}
	for _, c := range []struct {
		name string
		x, y Limits
		want string
		left bool
	}{
		{"nothing", Limits{}, Limits{}, `{}`, true},
		{"C-W26 the largest minimum and the smallest maximum", Limits{MinValue: "1", MaxValue: "9"}, Limits{MinValue: "2", MaxValue: "8"}, `{"minValue":2,"maxValue":8}`, true},
		{"C-W26 numbers and no texts", Limits{MinValue: "9"}, Limits{MinValue: "10"}, `{"minValue":10}`, true},
		{"C-W26 as it was written", Limits{MaxValue: "1.50"}, Limits{MaxValue: "1.5"}, `{"maxValue":1.50}`, true},
		{"C-W26 an empty range", Limits{MinValue: "5"}, Limits{MaxValue: "4.9"}, `{"minValue":5,"maxValue":4.9}`, false},
		{"C-W26 values that both have", Limits{AllowedValues: values(`"a"`, `1`, `null`)}, Limits{AllowedValues: values(`1.0`, `null`, `"b"`)}, `{"allowedValues":[1,null]}`, true},
		{"C-W26 a text is no number", Limits{AllowedValues: values(`"1"`)}, Limits{AllowedValues: values(`1`)}, `{}`, false},
		{"C-W26 no text is null", Limits{AllowedValues: values(`"<nil>"`)}, Limits{AllowedValues: values(`null`)}, `{}`, false},
		{"C-W26 one list is enough", Limits{}, Limits{Destinations: []string{"a"}}, `{"destinations":["a"]}`, true},
		{"C-W26 destinations", Limits{Destinations: []string{"a", "b"}}, Limits{Destinations: []string{"b", "c"}}, `{"destinations":["b"]}`, true},
		{"C-W26 none in common", Limits{Destinations: []string{"a"}}, Limits{Destinations: []string{"c"}}, `{}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			left := c.x.intersect(&c.y)
			if got, err := json.Marshal(c.x); err != nil || string(got) != c.want || left != c.left {
				t.Errorf("got %s, %v, %v; want %s, %v", got, left, err, c.want, c.left)
			}
		})
	}
}

// TestIndexOfAreas compares what the index finds with what a walk over all finds.
func TestIndexOfAreas(t *testing.T) {
	seed := rand.Uint64()
	r := random{rand.New(rand.NewPCG(seed, 2))}
	found := 0
	for range 2000 {
		index, all := areas{}, []*area{}
		for range 6 {
			a, err := newArea(r.one(somePatterns), nil, Limits{MaxValue: "1"}, "")
			if err != nil {
				t.Fatal(err)
			}
			index.add(a)
			all = append(all, a)
		}
		for _, path := range []string{"/", "/a", "/a/b", "/b", "/b/c", "/b/c/d", "/ab"} {
			got := index.over(path)
			for _, a := range all {
				if a.covers(path) != slices.Contains(got, a) {
					t.Fatalf("C-W26 seed %d: the index and the pattern disagree about %s", seed, path)
				}
			}
			found += len(got)
		}
	}
	if found < 1000 {
		t.Errorf("seed %d: %d found: the test shows little", seed, found)
	}
}
