package sim

import (
	"context"
	"errors"
	"slices"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
)

// act does one thing.
func (s *scene) act(step int) {
	switch k := s.IntN(20); {
	case k < 7:
		s.enter(step, s.world.call(step))
	case k < 8 && len(s.byID) > 0:
		s.repeat(step)
	case k < 11:
		s.pass(s.span(pick(s.world, time.Millisecond, time.Second, 4*time.Second)))
	case k < 14:
		s.release()
	case k < 15:
		s.leave()
	case k < 16:
		s.settle()
	case k < 17:
		s.abandon()
	case k < 18:
		s.cool()
	case k < 19:
		s.reload()
	default:
		if s.chance(4) {
			s.reset()
		} else {
			s.resume()
		}
	}
}

// enter sends a call in.
func (s *scene) enter(step int, call sluice.Call) {
	ctx, cancel := context.WithCancel(context.Background())
	if s.chance(5) {
		ctx, cancel = context.WithTimeout(ctx, s.span(10*time.Second))
	}
	p := &player{name: step, call: call, cancel: cancel}
	s.players = append(s.players, p)
	s.note("%d asks: %s %s %s %s %v %s", p.name, call.Kind, call.Subject, call.Tenant, call.Capability, call.Cost, call.ID)
	alone := !slices.ContainsFunc(s.players[:len(s.players)-1], func(o *player) bool { return !o.answered })
	go func() {
		adm, err := s.ctl.Admit(ctx, call)
		s.answer(p, adm, err)
	}()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if refusal, ok := errors.AsType[*sluice.Refusal](p.err); ok && alone {
		s.justified(p, refusal)
	}
}

// one draws a player of whom ok is true, nil if there is none.
func (s *scene) one(ok func(*player) bool) *player {
	var some []*player
	for _, p := range s.players {
		if ok(p) {
			some = append(some, p)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[s.IntN(len(some))]
}

func (s *scene) pass(d time.Duration) {
	s.note("%v pass", d)
	time.Sleep(d)
}

func (s *scene) release() {
	if p := s.one((*player).holds); p != nil {
		s.finish(p)
	}
}

// finish releases what p holds. A replay holds what the first call took.
func (s *scene) finish(p *player) {
	s.note("%d releases", p.name)
	taken := p.taken
	if p.replayed && s.byID[p.call.ID] != nil {
		taken = s.byID[p.call.ID].taken
	}
	s.model.release(taken, true)
	p.adm.Release()
	s.players = slices.DeleteFunc(s.players, func(o *player) bool { return o == p })
}

func (s *scene) leave() {
	if p := s.one(func(p *player) bool { return !p.answered }); p != nil {
		s.note("%d leaves", p.name)
		p.cancel()
	}
}

func (s *scene) settle() {
	p := s.one(func(p *player) bool { return p.holds() && !p.replayed && !p.settled })
	if p == nil {
		return
	}
	used := s.Int64N(40)
	s.note("%d settles %d", p.name, used)
	may := s.model.settle(p.taken, used)
	err := p.adm.Settle(context.Background(), sluice.Cost{{Unit: sluice.Tokens, N: used}})
	if may != (err == nil) || err != nil && !errors.Is(err, sluice.ErrOverrun) {
		s.Errorf("%d settles %d of %v: %v", p.name, used, p.call.Cost, err)
	}
	p.settled = err == nil
}

func (s *scene) abandon() {
	if p := s.one(func(p *player) bool { return p.holds() && !p.replayed }); p != nil {
		s.note("%d abandons", p.name)
		s.model.release(p.taken, false)
		p.adm.Abandon()
	}
}

func (s *scene) cool() {
	call, delay := s.world.call(0), s.span(15*time.Second)
	s.note("cool %s %s %s for %v", call.Kind, call.Subject, call.Tenant, delay)
	s.model.cool(&call, delay)
	if err := s.ctl.Cool(context.Background(), call, delay); err != nil {
		s.Error(err)
	}
}

func (s *scene) reload() {
	policy := s.policy(s.shapes)
	s.note("reload:%s", text(policy.Rules))
	s.model.reload(policy.Rules)
	if err := s.ctl.SetPolicy(policy); err != nil {
		s.Error(err)
	}
}

// reset makes everything full, in an instant of its own: a refund finds the debit it is
// for by its time.
func (s *scene) reset() {
	s.pass(s.span(time.Millisecond))
	s.rest()
	s.note("reset")
	s.model.reset()
	if _, err := s.ctl.ResetAll(context.Background()); err != nil {
		s.Error(err)
	}
	s.pass(s.span(time.Millisecond))
}

// resume lets somebody else release a grant by its ID.
func (s *scene) resume() {
	p := s.one(func(p *player) bool { return p.holds() && p.call.ID != "" && !p.replayed && len(p.taken) > 0 })
	if p == nil {
		return
	}
	s.note("%d is released by its ID", p.name)
	adm, err := s.ctl.Resume(context.Background(), p.call.ID)
	if err != nil {
		s.Error(err)
	}
	s.model.release(p.taken, true)
	adm.Release()
}

// repeat sends a call in again under its ID.
func (s *scene) repeat(step int) {
	ids := make([]string, 0, len(s.byID))
	for id := range s.byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	s.enter(step, s.byID[ids[s.IntN(len(ids))]].call)
}
