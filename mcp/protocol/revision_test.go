package protocol

import (
	"slices"
	"testing"
)

func TestEras(t *testing.T) {
	for _, c := range []struct {
		version string
		era     Era
		known   bool
		agreed  string // what an initialize that asks for it gets
	}{
		{"2024-11-05", Legacy, true, "2024-11-05"},
		{"2025-03-26", Legacy, true, "2025-03-26"},
		{"2025-06-18", Legacy, true, "2025-06-18"},
		{"2025-11-25", Legacy, true, "2025-11-25"},
		{"2026-07-28", Modern, true, "2025-11-25"},
		{"2026-07-27", Legacy, false, "2025-11-25"},
		{"2099-01-01", Modern, false, "2025-11-25"},
		{"1999-01-01", Legacy, false, "2025-11-25"},
		{"", Legacy, false, "2025-11-25"},
		{"draft", Legacy, false, "2025-11-25"},
		{"9999999999", Legacy, false, "2025-11-25"},
		{"2099-1-100", Legacy, false, "2025-11-25"},
		{"2099-01-01x", Legacy, false, "2025-11-25"},
		{"2o99-01-01", Legacy, false, "2025-11-25"},
	} {
		t.Run(c.version, func(t *testing.T) {
			if got := EraOf(c.version); got != c.era {
				t.Errorf("the era is %v", got)
			}
			if got := Known(c.version); got != c.known {
				t.Errorf("known: %v", got)
			}
			if got := Negotiate(c.version); got != c.agreed {
				t.Errorf("agreed on %s", got)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	all := Versions()
	if !slices.IsSortedFunc(all, func(a, b string) int { return -slices.Compare([]byte(a), []byte(b)) }) || len(all) != 5 {
		t.Errorf("not the newest first: %q", all)
	}
	if legacy, modern := VersionsOf(Legacy), VersionsOf(Modern); !slices.Equal(slices.Concat(modern, legacy), all) || len(modern) != 1 {
		t.Errorf("%q and %q", legacy, modern)
	}
	all[0] = "mine"
	if Versions()[0] == "mine" {
		t.Error("the slice is everybody's")
	}
	if Legacy.String() != "legacy" || Modern.String() != "modern" {
		t.Error("configuration spells eras otherwise")
	}
}
