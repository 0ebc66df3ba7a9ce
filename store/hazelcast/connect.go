package hazelcast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	hazelcast "github.com/hazelcast/hazelcast-go-client"
	"github.com/hazelcast/hazelcast-go-client/hzerrors"
	"github.com/hazelcast/hazelcast-go-client/logger"
	"github.com/hazelcast/hazelcast-go-client/types"
)

// startWait bounds how long Open may take.
const startWait = 10 * time.Second

// complete fills in what o leaves out.
func (o *Options) complete() error {
	if len(o.Addresses) == 0 {
		return errors.New("hazelcast: no address of a member was given; want host:port")
	}
	if o.Cluster == "" {
		o.Cluster = "dev"
	}
	if o.Map == "" {
		o.Map = "sluice"
	}
	if o.Wait <= 0 {
		o.Wait = 50 * time.Millisecond
	}
	if o.Retention <= 0 {
		o.Retention = time.Hour
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ok := len(o.Map) <= 64
	for _, c := range o.Map {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.:", c))
	}
	if !ok {
		return fmt.Errorf("hazelcast: %q cannot be the name of the map; use at most 64 of the ASCII letters, digits and '-_.:'", o.Map)
	}
	return nil
}

// A listener is the client's logger. It keeps silent, since the breaker tells what a
// person has to know, but hears why no member could be reached at the start: the client
// itself would try again without a word.
type listener struct {
	failed  func(error)
	started atomic.Bool
}

func (l *listener) Log(weight logger.Weight, message func() string) {
	if weight != logger.WeightDebug || l.started.Load() {
		return
	}
	if _, why, ok := strings.Cut(message(), "error connecting to cluster, attempt 1: "); ok {
		l.failed(errors.New(why))
	}
}

// config is how the client speaks to the cluster. It repeats nothing by itself that may
// have been carried out.
func (o *Options) config(l *listener) hazelcast.Config {
	var c hazelcast.Config
	c.ClientName = "sluice"
	c.Cluster.Name = o.Cluster
	c.Cluster.Network.SetAddresses(o.Addresses...)
	c.Cluster.Network.ConnectionTimeout = types.Duration(time.Second)
	c.Cluster.Security.Credentials.Username = o.User
	c.Cluster.Security.Credentials.Password = o.Password
	c.Cluster.ConnectionStrategy.Retry.InitialBackoff = types.Duration(100 * time.Millisecond)
	c.Cluster.ConnectionStrategy.Retry.MaxBackoff = types.Duration(500 * time.Millisecond)
	if o.TLS != nil {
		c.Cluster.Network.SSL.Enabled = true
		config := o.TLS.Clone()
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(o.Addresses[0])
		}
		c.Cluster.Network.SSL.SetTLSConfig(config)
	}
	c.Logger.CustomLogger = l
	c.FlakeIDGenerators = map[string]hazelcast.FlakeIDGeneratorConfig{
		o.Map: {PrefetchCount: 1, PrefetchExpiry: types.Duration(time.Hour)}, // each number is asked for
	}
	return c
}

// connect connects to the cluster and tries it out.
func (s *Store) connect(ctx context.Context, o Options) (err error) {
	trying, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	l := &listener{failed: failed}
	if s.client, err = hazelcast.StartNewClientWithConfig(trying, o.config(l)); err != nil {
		if cause := context.Cause(trying); cause != nil {
			return cause
		}
		return err
	}
	l.started.Store(true)
	if s.books, err = s.client.GetMap(ctx, o.Map); err != nil {
		return err
	}
	numbers, err := s.client.GetFlakeIDGenerator(ctx, o.Map)
	if err != nil {
		return err
	}
	const samples = 5 // each of which narrows the bounds
	for range samples {
		if err := s.clock.ask(ctx, numbers.NewID); err != nil {
			return err
		}
	}
	if err := s.clock.check(); err != nil {
		return err
	}
	if err := s.probe(ctx); err != nil {
		return err
	}
	go s.clock.keep(s.ctx, s.wait, numbers.NewID)
	go s.sweepUp()
	return nil
}

var errForm = errors.New("hazelcast: the map does not tell equal values; set its in-memory-format to BINARY, the default")

// probe asks whether the map carries out what a decision needs.
func (s *Store) probe(ctx context.Context) error {
	x := stamp{s.process, s.passes.Add(1)}
	key := "p" + string(appendWord(appendWord(nil, x.process), x.pass))
	one, two := []byte{1}, []byte{2}
	if _, err := s.books.PutIfAbsentWithTTL(ctx, key, one, ttlMargin); err != nil {
		return err
	}
	same, err := s.books.ReplaceIfSame(ctx, key, one, two)
	if err != nil {
		return err
	}
	if !same {
		return errForm
	}
	return s.books.Delete(ctx, key)
}

// explain turns what the client says at the start into one line for the person who wrote
// the options.
func explain(err error, o Options) error {
	where := strings.Join(o.Addresses, ", ")
	text := err.Error()
	switch {
	case strings.HasPrefix(text, "hazelcast: "):
		return err
	case strings.Contains(text, "invalid credentials"), errors.Is(err, hzerrors.ErrAuthentication):
		return fmt.Errorf("hazelcast: the cluster at %s refuses us: its name is not %q, or the user or the password is wrong", where, o.Cluster)
	case strings.Contains(text, "connection refused"):
		return fmt.Errorf("hazelcast: nobody listens at %s; is the member running, and the port right?", where)
	case strings.HasSuffix(text, "EOF"), strings.Contains(text, "connection reset"):
		return fmt.Errorf("hazelcast: the member at %s breaks off; is it one of Hazelcast, and do both sides want TLS or neither?", where)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, hzerrors.ErrTimeout):
		return fmt.Errorf("hazelcast: no member answers at %s within %v; is it a member of Hazelcast, and do both sides want TLS or neither?", where, startWait)
	}
	return fmt.Errorf("hazelcast: no connection to %s: %s", where, strings.ReplaceAll(text, "\n", " "))
}
