package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/rueidis"
)

// explain turns what a client or server says at the start into one line for the person
// who wrote the URI.
func explain(err error, o Options) error {
	if err == nil || strings.HasPrefix(err.Error(), "redis: ") {
		return err
	}
	if e, ok := rueidis.IsRedisErr(err); ok {
		return refusedBy(e.Error(), o)
	}
	if text := explainTLS(err, o); text != "" {
		return errors.New("redis: " + text)
	}
	var network net.Error
	switch {
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("redis: nothing answers in time: %w", err)
	case errors.As(err, &network):
		return fmt.Errorf("redis: no connection: %w; is the server running, and the port right?", err)
	}
	return fmt.Errorf("redis: %w", err)
}

// refusedBy explains what a server answers.
func refusedBy(text string, o Options) error {
	switch {
	case strings.HasPrefix(text, "WRONGPASS"), strings.Contains(text, "invalid password"):
		return errors.New("redis: the server refuses the user or the password of the URI")
	case strings.HasPrefix(text, "NOAUTH"), strings.Contains(text, "AUTH"):
		return errors.New("redis: the server wants a password; put it into the URI as redis://:PASSWORD@host or redis://USER:PASSWORD@host")
	case strings.Contains(text, "SELECT is not allowed"):
		return errors.New("redis: this is a node of a Cluster, which has database 0 alone; give a URI without a database")
	case strings.HasPrefix(text, "NOPERM"):
		return fmt.Errorf("redis: the user of the URI may not do what the store does; grant it ~%s* %s, and for a Cluster %s: %s", prefixOf(o), rights, clusterRights, text)
	}
	return fmt.Errorf("redis: the server says: %s", text)
}

// What a user needs, and what more where the server is a node of a Cluster.
const (
	rights        = "+evalsha +eval +hello +scan +get +mget +set +del +getrange +setrange +pexpireat +time +hget +hgetall +hincrby +hdel"
	clusterRights = "+cluster|slots +asking"
)

// explainTLS explains how two sides fail to agree on TLS, if that is what err is about.
func explainTLS(err error, o Options) string {
	encrypted := strings.HasPrefix(o.URI, "rediss:")
	var (
		plain   tls.RecordHeaderError
		unknown x509.UnknownAuthorityError
		another x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &plain):
		return "the server does not speak TLS; write redis:// instead of rediss://"
	case errors.As(err, &unknown):
		return "the server's certificate is from an authority that is not trusted; give that authority's certificate with the store's TLS settings (caFile)"
	case errors.As(err, &another):
		return "the server's certificate is for another name; give that name with the store's TLS settings (serverName): " + another.Error()
	case errors.As(err, &invalid):
		return "the server's certificate is not good: " + invalid.Error()
	case strings.Contains(err.Error(), "remote error: tls: "), encrypted && hungUp(err):
		return "the server hangs up on this side's TLS; does it want a certificate (certFile and keyFile)? " + err.Error()
	case hungUp(err):
		return "the server hangs up without an answer; if it speaks TLS, write rediss:// instead of redis://"
	case encrypted && errors.Is(err, context.DeadlineExceeded):
		return "nothing answers in time; if the server does not speak TLS, write redis:// instead of rediss://"
	}
	return ""
}

// hungUp reports whether the other side has ended the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func prefixOf(o Options) string {
	if o.Prefix == "" {
		return "sluice:"
	}
	return o.Prefix
}
