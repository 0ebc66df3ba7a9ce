package redis_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/ledger"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/store/redis"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// certificate makes a certificate for this machine that vouches for itself, as files.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for path, data := range map[string][]byte{cert: text, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return cert, key, pool
}

func TestTLS(t *testing.T) {
	cert, key, pool := certificate(t)
	port := redistest.FreePort(t)
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	uri := "rediss://127.0.0.1:" + port
	t.Run("a certificate that the caller trusts", func(t *testing.T) {
		s := open(t, redis.Options{URI: uri, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, Wait: time.Second})
		defer s.Close()
		if res, err := do(s, take(limit.Pace(limit.Hour), 1, 1)); err != nil || res.Status != ledger.Done {
			t.Errorf("%+v, %v", res, err)
		}
	})
	strict := redistest.FreePort(t)
	redistest.Start(t, "--tls-port", strict, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	plain := redistest.Start(t)
	trusted := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	named := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, ServerName: "books.example"}
	for _, c := range []struct {
		name, uri string
		tls       *tls.Config
		want      string
	}{
		{"one that nobody vouches for", uri, nil, "from an authority that is not trusted"},
		{"one for another name", uri, named, "is for another name"},
		{"no TLS where it is wanted", "redis://127.0.0.1:" + port, nil, "write rediss:// instead of redis://"},
		{"TLS where there is none", "rediss://" + plain.Addr, trusted, "write redis:// instead of rediss://"},
		{"no certificate where one is wanted", "rediss://127.0.0.1:" + strict, trusted, "does it want a certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := redis.Open(context.Background(), redis.Options{URI: c.uri, TLS: c.tls})
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			if text := err.Error(); !strings.Contains(text, c.want) || !strings.HasPrefix(text, "redis: ") || strings.Contains(text, "\n") {
				t.Errorf("told %q, want something with %q", text, c.want)
			}
		})
	}
}
