package redis

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/ledger"
)

// What is here hears what the script publishes: of which cells something has come back
// while somebody waited for it, whichever process gave it.
//
// It is PUBLISH and not SPUBLISH: Redis 6 knows it too, a Sentinel's replicas and all
// nodes of a Cluster pass it on, so that one subscription on any node is enough, and
// marks make messages rare.

// A channel is a subscription, kept up on a connection of its own, and who listens to it.
type channel struct {
	name string

	mu        sync.RWMutex // held while listeners are told
	listeners []*listener
	open      bool // what is published is heard

	again chan struct{} // asks to subscribe anew
	quit  context.CancelFunc
	ended chan struct{}
}

// A listener is somebody who is told; see [Store.Watch].
type listener struct {
	freed func(ledger.Key)
	heard func(bool)
}

// unwelcome is how long a server is left alone that does not let its user subscribe.
const unwelcome = 5 * time.Second

func (c *channel) start(s *Store) {
	ctx, quit := context.WithCancel(context.Background())
	c.name = s.prefix + "freed"
	c.again, c.ended, c.quit = make(chan struct{}, 1), make(chan struct{}), quit
	go c.run(ctx, s)
}

func (c *channel) stop() {
	c.quit()
	<-c.ended
}

// renew subscribes anew, as is needed when the client of s has been replaced.
func (c *channel) renew() {
	select {
	case c.again <- struct{}{}:
	default:
	}
}

// Watch implements sluice.Waker. freed and heard must not wait for anything, and must
// not call Watch or stop.
func (s *Store) Watch(freed func(ledger.Key), heard func(bool)) (stop func()) {
	c, l := &s.channel, &listener{freed, heard}
	c.mu.Lock()
	c.listeners = append(c.listeners, l)
	if c.open {
		l.heard(true)
	}
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		c.listeners = slices.DeleteFunc(c.listeners, func(other *listener) bool { return other == l })
		c.mu.Unlock()
	}
}

// run subscribes, and subscribes anew whenever the connection is lost.
func (c *channel) run(ctx context.Context, s *Store) {
	defer close(c.ended)
	warned := false
	for before := false; ctx.Err() == nil; {
		client, err := s.nodes.any().connected(ctx)
		if err == nil {
			err = c.hear(ctx, client, func(ctx context.Context) {
				if before { // what has cut this connection may have cut that of the calls
					s.probeAll(ctx)
				}
				before = true
			})
		}
		pause := probeEvery
		if _, refused := rueidis.IsRedisErr(err); refused && !isDown(err) {
			pause = unwelcome
			if !warned {
				s.log.Warn("redis: the user may not subscribe to "+c.name+"; callers in line ask again and again", "error", err)
				warned = true
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// hear subscribes and passes on what comes, until the connection is lost, ctx ends, or
// another client has taken the place of this one. It returns why it could not subscribe.
// ready is called before anybody is told that it could, and asks for something.
func (c *channel) hear(ctx context.Context, client rueidis.Client, ready func(context.Context)) error {
	conn, release := client.Dedicate()
	defer release()
	defer conn.Close()
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { c.pass(m.Message) }})
	bounded, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	if err := conn.Do(bounded, conn.B().Subscribe().Channel(c.name).Build()).Error(); err != nil {
		return err
	}
	ready(bounded)
	c.set(true)
	defer c.set(false)
	select {
	case <-lost:
	case <-c.again:
	case <-ctx.Done():
	}
	return nil
}

// set tells whether what is published is heard from now on.
func (c *channel) set(open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = open
	for _, l := range c.listeners {
		l.heard(open)
	}
}

// pass tells of the cells whose names are in a message.
func (c *channel) pass(names string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for ; len(names) >= nameLen; names = names[nameLen:] {
		key, err := parseName(names[:nameLen])
		if err != nil {
			return // what others publish under our name
		}
		for _, l := range c.listeners {
			l.freed(key)
		}
	}
}
