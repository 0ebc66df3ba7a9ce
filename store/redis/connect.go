package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// oldest is the oldest version of Redis whose scripts can do what ours do: 6.2 lets a key
// end at a time.
const oldest = "6.2"

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

// A dialer connects to servers as the options say.
type dialer struct {
	options Options
	client  rueidis.ClientOption
	seeds   []string // addresses to begin with; none if a Sentinel names the server
}

func newDialer(o Options) (*dialer, error) {
	option, err := rueidis.ParseURL(o.URI)
	if err != nil || option.InitAddress[0] == "" || strings.HasPrefix(option.InitAddress[0], ":") {
		return nil, errURI
	}
	if option.TLSConfig != nil {
		option.TLSConfig.ServerName = "" // the host that is connected to, which is not always the URI's
		if o.TLS != nil {
			option.TLSConfig = o.TLS
		}
	}
	option.DisableRetry = true // what was sent may have been carried out
	option.DisableCache = true
	option.PipelineMultiplex = -1 // one connection: calls carry many commands anyway
	option.ClientName = "sluice"
	// A peer that is silent for so long is given up, and the next attempt connects anew.
	option.ConnWriteTimeout = max(time.Second, 2*o.Wait)
	option.Dialer.Timeout = probeWait
	option.Dialer.KeepAlive = time.Second
	d := &dialer{options: o, client: option}
	if option.Sentinel.MasterSet != "" {
		d.client.Sentinel.Dialer = option.Dialer
		d.client.Sentinel.TLSConfig = option.TLSConfig
	} else {
		d.client.ForceSingleClient = true
		d.seeds = option.InitAddress
	}
	return d, nil
}

// first connects to the server that the URI leads to, and says whether it is a node of a
// Cluster.
func (d *dialer) first(ctx context.Context) (client rueidis.Client, addr string, cluster bool, err error) {
	if len(d.seeds) == 0 {
		client, cluster, err = d.to(ctx, "")
		return client, "", cluster, err
	}
	for _, addr = range d.seeds {
		if client, cluster, err = d.to(ctx, addr); err == nil {
			break
		}
	}
	return client, addr, cluster, err
}

// to returns a client for the server at addr, or for the one that a Sentinel names if
// addr is empty, and whether it is a node of a Cluster.
func (d *dialer) to(ctx context.Context, addr string) (client rueidis.Client, cluster bool, err error) {
	option := d.client
	if addr != "" {
		option.InitAddress = []string{addr}
	}
	if client, err = rueidis.NewClient(option); err != nil {
		return nil, false, explain(err, d.options)
	}
	if cluster, err = checkServer(ctx, client); err != nil {
		client.Close()
		return nil, false, explain(err, d.options)
	}
	return client, cluster, nil
}

// checkServer asks the server what it is: a node of a Cluster, or a single one.
func checkServer(ctx context.Context, client rueidis.Client) (cluster bool, err error) {
	hello, err := client.Do(ctx, client.B().Arbitrary("HELLO", "3").Build()).AsMap()
	if e, ok := rueidis.IsRedisErr(err); ok && strings.Contains(strings.ToLower(e.Error()), "unknown command") {
		return false, fmt.Errorf("redis: the server is older than Redis %s, which is the oldest that works", oldest)
	}
	if err != nil {
		return false, err
	}
	said := hello["mode"]
	mode, _ := said.ToString()
	if mode == "sentinel" {
		return false, errors.New("redis: this is a Sentinel; add ?master_set=NAME to the URI, with the name it gives the master")
	}
	said = hello["version"]
	version, _ := said.ToString()
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || major < 6 || major == 6 && minor < 2 {
		return false, fmt.Errorf("redis: the server is Redis %s, and %s is the oldest that works", version, oldest)
	}
	return mode == "cluster", nil
}
