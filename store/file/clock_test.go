package file

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/limit"
)

// TestTimeGoesOn is C-W6: what the store's time is after a restart, whatever has been
// done to the wall clock.
func TestTimeGoesOn(t *testing.T) {
	const wall, year = int64(1_800_000_000_000_000), 365 * int64(limit.Day)
	boot, reboot, here, there := [16]byte{1}, [16]byte{2}, [16]byte{3}, [16]byte{4}
	last := stamp{now: limit.Hour, wall: wall, up: 1000}
	for _, c := range []struct {
		name        string
		now         moment
		want        limit.Micros
		doubt, fail string
	}{
		{"C-W6 the same boot: the wall clock is not asked", moment{wall: wall + year, up: 1500, boot: boot, host: here}, limit.Hour + 500, "", ""},
		{"C-W6 the same boot, wall clock set back", moment{wall: wall - year, up: 1500, boot: boot, host: here}, limit.Hour + 500, "", ""},
		{"C-W6 another boot: by the wall clock", moment{wall: wall + 700, up: 300, boot: reboot, host: here}, limit.Hour + 700, "", ""},
		{"C-W6 another boot, wall clock set back", moment{wall: wall - year, up: 300, boot: reboot, host: here}, limit.Hour + 300, "was set back", ""},
		{"C-W6 another machine, whose time since its start says nothing", moment{wall: wall + 700, up: 9_000, boot: reboot, host: there}, limit.Hour + 700, "", ""},
		{"C-W6 another machine with a clock that is behind", moment{wall: wall - 700, up: 9_000, boot: reboot, host: there}, limit.Hour, "was set back", ""},
		{"C-W6 a clock set to another age", moment{wall: wall + 37*year, up: 300, boot: reboot, host: here}, 0, "", "set the clock right"},
	} {
		t.Run(c.name, func(t *testing.T) {
			now, doubt, err := resume(last, boot, here, c.now)
			if now != c.want || (doubt == "") != (c.doubt == "") || !strings.Contains(doubt, c.doubt) {
				t.Errorf("%d, %q; want %d, %q", now, doubt, c.want, c.doubt)
			}
			if (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) {
				t.Errorf("error %v, want %q", err, c.fail)
			}
		})
	}
	t.Run("a system that does not tell", func(t *testing.T) {
		now, _, err := resume(last, [16]byte{}, here, moment{wall: wall + 700, host: here})
		if now != limit.Hour+700 || err != nil {
			t.Errorf("%d, %v", now, err)
		}
	})
}

// TestThisMachineTells is what the test above takes for granted.
func TestThisMachineTells(t *testing.T) {
	a, b := thisMoment(), thisMoment()
	if a.boot != b.boot || a.host != b.host || b.up < a.up {
		t.Errorf("%+v and then %+v", a, b)
	}
}
