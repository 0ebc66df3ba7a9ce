package config

import (
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
)

func TestSite(t *testing.T) {
	t.Run("I-018 a limit of an IPv6 site is a rule beside that of its networks", func(t *testing.T) {
		c := load(t, map[string]string{"a.yaml": "identity: {preAuth: {limit: 10/min, site: 200/min}}\n"})
		r := rule(t, c, "preauth-site")
		if kinds := r.Match.Is[sluice.Kind]; len(kinds) != 1 || kinds[0] != KindPreAuthSite {
			t.Errorf("it matches the kinds %q", kinds)
		}
		if got := algorithms(r); len(got) != 1 || got[0] != limit.Bucket(200, limit.Minute, 200) {
			t.Errorf("its limits are %v", got)
		}
		if len(r.GroupBy) != 1 || r.GroupBy[0] != sluice.IP || r.OnStoreError != sluice.FailOpen {
			t.Errorf("it is %+v", r)
		}
	})
	t.Run("nobody has one who does not ask for it", func(t *testing.T) {
		for _, r := range load(t, map[string]string{"a.yaml": "tiers: {anonymous: 1/s}\n"}).Policy().Rules {
			if r.ID == "preauth-site" {
				t.Error("there is a rule")
			}
		}
	})
}
