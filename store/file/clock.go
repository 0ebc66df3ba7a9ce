package file

import (
	"fmt"
	"time"

	"github.com/sluicegate/sluice/limit"
)

// The store's time counts microseconds from a second before the store was made, by the
// monotonic clock while a process runs. From one process to the next it goes on by the
// machine's time since its start, which nobody sets, or after a restart of the machine
// by the wall clock, which may be wrong and is checked: the store's time never goes back.

// horizon is how far the store's time can count: a cell's word holds time × rate in 61
// bits and rates up to a thousand (see limit.Limit.Narrow).
const horizon = 36 * 365 * limit.Day

// A moment is what the clocks of a machine show, and which machine it is.
type moment struct {
	wall, up   int64 // microseconds; up is zero if unknown
	boot, host [16]byte
}

func thisMoment() moment {
	m := moment{wall: time.Now().UnixMicro(), up: uptime(), host: hostHash()}
	if boot := bootID(); boot != "" {
		m.boot = sumOf([]byte(boot))
	}
	return m
}

// stampNow is a stamp of now, the store's time.
func stampNow(now limit.Micros) stamp { return stamp{now, time.Now().UnixMicro(), uptime()} }

// resume returns the store's time at m, for a store that was last written at last by a
// process that ran in boot on host. doubt says in words what the clocks disagree on.
func resume(last stamp, boot, host [16]byte, m moment) (now limit.Micros, doubt string, err error) {
	var gone int64
	switch known := boot != [16]byte{}; {
	case known && boot == m.boot:
		gone = max(0, m.up-last.up)
	default:
		gone = m.wall - last.wall
		least := int64(0)
		if host == m.host {
			least = m.up // the machine has been started since
		}
		if gone < least {
			doubt = fmt.Sprintf("the wall clock shows %v and the store was written at %v: it was set back; time goes on by %v",
				asTime(m.wall), asTime(last.wall), time.Duration(least)*time.Microsecond)
			gone = least
		}
	}
	if limit.Micros(gone) > horizon-last.now {
		return 0, "", fmt.Errorf("the wall clock shows %v and the store was written at %v; set the clock right", asTime(m.wall), asTime(last.wall))
	}
	return last.now + limit.Micros(gone), doubt, nil
}

func asTime(wall int64) string { return time.UnixMicro(wall).UTC().Format(time.RFC3339) }
