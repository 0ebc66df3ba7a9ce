package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/store/redis/redistest"
)

// selfSigned makes a certificate for a name that vouches for itself, as PEM files.
func selfSigned(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name},
		IsCA: true, BasicConstraintsValid: true,
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
	write := func(file, kind string, data []byte) string {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret)
}

// TestRedisTLS opens a Redis that shows a certificate of another name than its address,
// and wants one of us.
func TestRedisTLS(t *testing.T) {
	t.Setenv("STORE_SECRET", "0123456789abcdefghijklmnopqrstuv")
	cert, key := selfSigned(t, "books.example")
	port := redistest.FreePort(t)
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	all := map[string]string{"caFile": cert, "certFile": cert, "keyFile": key, "serverName": "books.example"}
	for _, c := range []struct{ name, without, want string }{
		{"all that it needs", "", ""},
		{"no authority", "caFile", "not trusted"},
		{"no name", "serverName", "is for another name"},
		{"no certificate", "certFile", "does it want a certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := []string{"store.backend=redis", "store.redis.uri=rediss://127.0.0.1:" + port, "store.redis.keySecret=${STORE_SECRET}"}
			for name, value := range all {
				if name != c.without && (name != "keyFile" || c.without != "certFile") {
					set = append(set, "store.redis.tls."+name+"="+value)
				}
			}
			cfg, problems := config.Load(nil, config.Options{Set: set})
			if err := problems.Err(); err != nil {
				t.Fatal(err)
			}
			b, err := openStore(&cfg.Store, slog.New(slog.DiscardHandler))
			if err == nil {
				defer b.Close() //nolint:errcheck // nothing was written
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("told %v, want %q", err, c.want)
			}
		})
	}
}
