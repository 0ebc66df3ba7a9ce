package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
)

// listen opens an address: host:port, :port, or unix:/path.
func listen(address string) (net.Listener, error) {
	network, where := "tcp", address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, where = "unix", path
		if err := removeStale(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen(network, where)
	if err != nil {
		return nil, listenError(where, err)
	}
	return l, nil
}

// removeStale removes a socket that a killed process has left. One that somebody answers
// at stays, and so does whatever is no socket.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("cannot listen on %s: it is there and is no socket; remove it, or choose another path", path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		return errors.Join(c.Close(), listenError(path, syscall.EADDRINUSE))
	}
	return os.Remove(path)
}

// listenError says in a line what is wrong and what to do.
func listenError(where string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("cannot listen on %s: another process does already; stop it, or choose another address", where)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("cannot listen on %s: not permitted; ports below 1024 need root or CAP_NET_BIND_SERVICE", where)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("cannot listen on %s: this machine has no such address", where)
	}
	return fmt.Errorf("cannot listen on %s: %w", where, err)
}

// urlOf returns where people reach a listener.
func urlOf(l net.Listener, tls bool) string {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return "unix:" + l.Addr().String()
	}
	scheme, host := "http", addr.IP.String()
	if tls {
		scheme = "https"
	}
	if addr.IP.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}
