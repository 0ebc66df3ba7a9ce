package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// oldest is the oldest major version of Redis whose scripts can do what ours do.
const oldest = 6

// errURI says what a URI looks like. What was given is not repeated: it may hold a password.
var errURI = errors.New("redis: the URI cannot be read; want redis://[user:password@]host:port[/database], with special characters of the password as %XX")

func checkPrefix(prefix string) error {
	ok := len(prefix) <= 64
	for _, c := range prefix {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.:", c))
	}
	if !ok {
		return fmt.Errorf("redis: the prefix %q cannot begin a key; use at most 64 of the ASCII letters, digits and '-_.:'", prefix)
	}
	return nil
}

// connect returns a client for the server at o.URI, which it has spoken to.
func connect(ctx context.Context, o Options) (rueidis.Client, error) {
	option, err := rueidis.ParseURL(o.URI)
	if err != nil || option.InitAddress[0] == "" || strings.HasPrefix(option.InitAddress[0], ":") {
		return nil, errURI
	}
	if option.TLSConfig != nil && o.TLS != nil {
		option.TLSConfig = o.TLS
	}
	option.DisableRetry = true // what was sent may have been carried out
	option.DisableCache = true
	option.PipelineMultiplex = -1 // one connection: calls carry many commands anyway
	option.ClientName = "sluice"
	// A peer that is silent for so long is given up, and the next attempt connects anew.
	option.ConnWriteTimeout = max(time.Second, 2*o.Wait)
	option.Dialer.Timeout = probeWait
	option.Dialer.KeepAlive = time.Second
	if option.Sentinel.MasterSet != "" {
		option.Sentinel.Dialer = option.Dialer
		option.Sentinel.TLSConfig = option.TLSConfig
	} else {
		option.ForceSingleClient = true
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, explain(err, o)
	}
	if err := checkServer(ctx, client); err != nil {
		client.Close()
		return nil, explain(err, o)
	}
	return client, nil
}

// checkServer asks the server what it is.
func checkServer(ctx context.Context, client rueidis.Client) error {
	hello, err := client.Do(ctx, client.B().Arbitrary("HELLO", "3").Build()).AsMap()
	if e, ok := rueidis.IsRedisErr(err); ok && strings.Contains(strings.ToLower(e.Error()), "unknown command") {
		return fmt.Errorf("redis: the server is older than Redis %d, which is the oldest that works", oldest)
	}
	if err != nil {
		return err
	}
	mode, version := hello["mode"], hello["version"]
	switch text, _ := mode.ToString(); text {
	case "sentinel":
		return errors.New("redis: this is a Sentinel; add ?master_set=NAME to the URI, with the name it gives the master")
	case "cluster":
		return errors.New("redis: this is a node of a Cluster, and a store needs a single server or a Sentinel's master; give the URI of one")
	}
	text, _ := version.ToString()
	var major int
	if _, err := fmt.Sscanf(text, "%d.", &major); err != nil || major < oldest {
		return fmt.Errorf("redis: the server is Redis %s; %d.0 is the oldest that works", text, oldest)
	}
	return nil
}
