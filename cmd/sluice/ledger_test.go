package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/file"
)

// TestInspectAdmissions looks at a ledger with an admission of each kind.
func TestInspectAdmissions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	store, err := file.Open(path, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	of := func(kind string, l limit.Limit) sluice.Rule {
		match := sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {kind}}}
		return sluice.Rule{ID: kind, Match: match, Limits: []sluice.Limit{{Limit: l}}}
	}
	policy := &sluice.Policy{Rules: []sluice.Rule{of("budget", limit.Window(100, limit.Day)), of("slot", limit.Slots(9))}}
	ctl, err := sluice.Open(policy, store, sluice.Options{KeySecret: store.KeySecret()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	admit := func(call sluice.Call) sluice.Admission {
		t.Helper()
		adm, err := ctl.Admit(ctx, call)
		if err != nil {
			t.Fatal(err)
		}
		return adm
	}
	admit(sluice.Call{ID: "1", Kind: "slot", WhileHeld: true, Note: []byte(strings.Repeat("é", 100))})
	admit(sluice.Call{ID: "2", Kind: "budget", Expires: time.Microsecond, Note: []byte("a\x1b[31mb")})
	settled := admit(sluice.Call{ID: "3", Kind: "budget", Expires: time.Hour, Note: []byte(`{"id":3}`)})
	if err := settled.SettleAs(ctx, sluice.Cost{{N: 1}}, 2); err != nil {
		t.Fatal(err)
	}
	if err := admit(sluice.Call{ID: "4", Kind: "slot"}).Settle(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	c, err := inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	var text, machine bytes.Buffer
	if err := c.write(&text); err != nil {
		t.Fatal(err)
	}
	id, when := `(?m)^[0-9a-f]{32}  `, `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`
	for name, line := range map[string]string{
		"a call that holds a slot, and a note that is cut": id + when + ` +1 of slot slots +é{59}…$`,
		"C-99 a reservation that has expired":              id + when + `  expired ` + when + ` +1 of budget window +7 bytes$`,
		"C-76 one that is settled":                         id + when + `  good until ` + when + `, settled as 2 +1 of budget window +{"id":3}$`,
		"a call that is settled":                           id + when + `  settled +1 of slot slots$`,
	} {
		if !regexp.MustCompile(line).Match(text.Bytes()) {
			t.Errorf("%s is not among\n%s", name, &text)
		}
	}
	if err := writeJSON(&machine, c.json()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Admissions []struct {
			Settled   bool
			Outcome   uint8
			Used      []int64
			Expires   *time.Time
			Note      *string
			NoteBytes int
		}
	}
	if err := json.Unmarshal(machine.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	settlements, texts, expiring, notes := 0, 0, 0, 0
	for _, a := range got.Admissions {
		if a.Settled && a.Outcome == 2 && len(a.Used) == 1 && a.Used[0] == 1 {
			settlements++
		}
		if a.Note != nil {
			texts++
		}
		if a.Expires != nil {
			expiring++
		}
		notes += a.NoteBytes
	}
	if settlements != 1 || texts != 2 || expiring != 2 || notes != 200+7+8 {
		t.Errorf("the JSON has %d settlements, %d notes of text, %d that expire and %d bytes of notes:\n%s", settlements, texts, expiring, notes, &machine)
	}
}
