package gate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// TLS is the certificate of a [Server]. The zero value is none: plain HTTP.
type TLS struct {
	// CertFile holds the certificate chain and KeyFile the private key, PEM.
	CertFile, KeyFile string
	// ClientCAFile holds the authorities of which a client must show a certificate;
	// empty demands none.
	ClientCAFile string
	// MinVersion is the oldest version, as in [tls.Config]; zero is TLS 1.2.
	MinVersion uint16
}

// A Server serves a handler, such as [Gate.Proxy], on HTTP/1.1 and, with a certificate,
// HTTP/2, within the bounds that keep slow and greedy clients from harming others. Use
// [NewServer].
type Server struct {
	gate  *Gate
	http  *http.Server
	tls   atomic.Pointer[tls.Config] // nil is plain HTTP
	conns connections
}

// NewServer returns a server for h with the bounds of g's options as they are now.
// BodyBytes and BodyTimeout are the gate's affair, and follow a Reload.
func NewServer(g *Gate, h http.Handler, t TLS) (*Server, error) {
	o := &g.current.Load().o
	b := o.Bounds
	s := &Server{gate: g, conns: connections{gate: g, most: b.ConnectionsPerIP}}
	if err := s.ReloadTLS(t); err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler:           h,
		ReadHeaderTimeout: orElse(b.HeaderTimeout, 5*time.Second),
		IdleTimeout:       orElse(b.IdleTimeout, 2*time.Minute),
		MaxHeaderBytes:    orElse(b.HeaderBytes, 32<<10),
		ConnState:         s.conns.watch,
		ErrorLog:          ErrorLog(logger(o.Logger)),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: orElse(b.ConcurrentStreams, 250)},
		// No WriteTimeout: it would end every stream.
	}
	if s.tls.Load() != nil {
		s.http.TLSConfig = &tls.Config{
			NextProtos: []string{"h2", "http/1.1"},
			// Asked for every connection, so that a reloaded certificate counts.
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.tls.Load(), nil },
			GetCertificate:     func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.tls.Load().Certificates[0], nil },
		}
	}
	return s, nil
}

func orElse[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// ReloadTLS reads the certificate anew. New connections get it; on an error the old one
// stays. A server cannot change between TLS and plain HTTP.
func (s *Server) ReloadTLS(t TLS) error {
	if t.CertFile == "" && t.KeyFile == "" {
		if s.tls.Load() != nil {
			return errors.New("gate: the server has a certificate; to serve without one it must be started anew")
		}
		return nil
	}
	if s.http != nil && s.tls.Load() == nil {
		return errors.New("gate: the server has no certificate; to serve with one it must be started anew")
	}
	cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return fmt.Errorf("gate: the certificate %s with the key %s: %w", t.CertFile, t.KeyFile, err)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{cert},
		MinVersion:   orElse(t.MinVersion, tls.VersionTLS12),
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if t.ClientCAFile != "" {
		pem, err := os.ReadFile(t.ClientCAFile)
		if err != nil {
			return fmt.Errorf("gate: the client authorities: %w", err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("gate: %s holds no certificate", t.ClientCAFile)
		}
	}
	s.tls.Store(c)
	return nil
}

// Serve accepts connections on l until Shutdown, and then returns
// [http.ErrServerClosed]. It may be called for several listeners at the same time.
func (s *Server) Serve(l net.Listener) error {
	if s.tls.Load() == nil {
		return s.http.Serve(l)
	}
	return s.http.ServeTLS(l, "", "")
}

// Shutdown stops accepting, asks streams to end, and returns when all requests have, or
// when ctx ends; then the rest is cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	drained := make(chan error, 1)
	go func() { drained <- s.gate.Drain(ctx) }()
	err := s.http.Shutdown(ctx)
	if late := <-drained; err == nil {
		err = late
	}
	if err != nil {
		_ = s.http.Close() // what is left has had its time
	}
	return err
}
