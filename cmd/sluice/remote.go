package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// A remote is the administration of a running sluice.
type remote struct {
	addr, tokenFile string
}

// tokenVariable is where the token is looked for if no file is given. A flag would show
// it to everybody who lists processes.
const tokenVariable = "SLUICE_ADMIN_TOKEN"

func (r *remote) flags(f *pflag.FlagSet, addr, usage string) {
	f.StringVar(&r.addr, "addr", addr, usage)
	f.StringVar(&r.tokenFile, "token-file", "", "a `file` with the admin token (default: the variable "+tokenVariable+")")
}

// mostAnswer bounds what is read of an answer.
const mostAnswer = 64 << 20

// ask sends a request, with body as JSON unless it is nil, and decodes the answer into
// answer.
func (r *remote) ask(ctx context.Context, method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	base, client := r.client()
	req, err := http.NewRequestWithContext(ctx, method, base+path, content)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := r.authorize(req); err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return r.unreachable(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer))
	if err != nil {
		return r.unreachable(err)
	}
	if res.StatusCode != http.StatusOK {
		return r.refused(res, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s answers, but not as a sluice of this version: %w", r.addr, err)
	}
	return nil
}

// client returns how to reach addr: host:port, a URL, or unix:/path.
func (r *remote) client() (base string, c *http.Client) {
	if path, ok := strings.CutPrefix(r.addr, "unix:"); ok {
		var d net.Dialer
		return "http://localhost", &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return d.DialContext(ctx, "unix", path)
			},
		}}
	}
	c = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if strings.Contains(r.addr, "://") {
		return strings.TrimSuffix(r.addr, "/"), c
	}
	return "http://" + r.addr, c
}

func (r *remote) authorize(req *http.Request) error {
	token := os.Getenv(tokenVariable)
	if r.tokenFile != "" {
		text, err := os.ReadFile(r.tokenFile)
		if err != nil {
			return err
		}
		token = strings.TrimSpace(string(text))
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

func (r *remote) unreachable(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("nothing answers at %s; is sluice running there, with listen.admin?", r.addr)
	}
	return fmt.Errorf("asking %s: %w", r.addr, err)
}

// refused says what a problem body says.
func (r *remote) refused(res *http.Response, body []byte) error {
	var p struct{ Title, Detail string }
	if json.Unmarshal(body, &p) != nil || p.Title == "" {
		return fmt.Errorf("%s answers %s; is it the administration of a sluice?", r.addr, res.Status)
	}
	text := p.Title
	if p.Detail != "" {
		text += " " + p.Detail
	}
	if res.StatusCode == http.StatusUnauthorized {
		text += " Put it into " + tokenVariable + ", or give --token-file."
	}
	return fmt.Errorf("%s: %s", r.addr, text)
}
