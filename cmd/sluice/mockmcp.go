package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/mcp/mcptest"
)

// A mockMCP is an MCP server that does what it is told.
type mockMCP struct {
	streams
	in        io.Reader
	listen    string
	dial      string
	secretEnv string
}

func newMockMCP(s streams) *cobra.Command {
	m := mockMCP{streams: s}
	cmd := &cobra.Command{
		Use:   "mock-mcp",
		Short: "Stand for an MCP server, for tests",
		Long: `Serves MCP on its standard input and output, with tools that do what their names say:

  echo                  the arguments
  wait {"ms": 500}      an answer after that time
  progress {"n": 3}     three steps, and an answer
  hold {"key": "a"}     no answer, until release {"key": "a"} is called
  silent                never an answer
  fail, error, big, ask, change, task, input, die

With --listen it serves HTTP instead: both kinds of Streamable HTTP at /mcp, the older one at
/sse, WebSocket at /ws. With --dial it connects to a broker that waits for providers.`,
		Example: `  sluice mock-mcp
  sluice mock-mcp --listen 127.0.0.1:8083
  sluice mock-mcp --dial ws://127.0.0.1:8082/provider/plant --secret-env PLANT_SECRET`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m.in = cmd.InOrStdin()
			return m.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&m.listen, "listen", "", "the `address` to serve HTTP on")
	f.StringVar(&m.dial, "dial", "", "the `address` of a broker to connect to")
	f.StringVar(&m.secretEnv, "secret-env", "", "the `variable` with the secret that the broker wants to see")
	cmd.MarkFlagsMutuallyExclusive("listen", "dial")
	return cmd
}

func (m *mockMCP) run(ctx context.Context) error {
	p := mcptest.New(mcptest.Options{Name: "mock-mcp", Forget: true})
	defer p.Close()
	switch {
	case m.dial != "":
		return m.connect(ctx, p)
	case m.listen != "":
		return m.serve(ctx, p)
	}
	if err := p.Serve(mcptest.Pipe(m.in, m.out)); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// connect dials into a broker, and returns when that has had enough of it.
func (m *mockMCP) connect(ctx context.Context, p *mcptest.Provider) error {
	h := http.Header{}
	if m.secretEnv != "" {
		secret := os.Getenv(m.secretEnv)
		if secret == "" {
			return fmt.Errorf("the environment variable %s is not set", m.secretEnv)
		}
		h.Set("X-Provider-Token", secret)
	}
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	line, err := p.DialIn(within, m.dial, h)
	if err != nil {
		return err
	}
	fmt.Fprintf(m.out, "A provider that does what it is told is connected to %s.\n", m.dial)
	select {
	case <-ctx.Done():
		return line.Close()
	case <-line.Done():
		return errors.New("the broker has closed the connection")
	}
}

func (m *mockMCP) serve(ctx context.Context, p *mcptest.Provider) error {
	l, err := net.Listen("tcp", m.listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", p.Handler(mcptest.HTTP{}))
	mux.Handle("/sse", p.SSE())
	mux.Handle("/ws", p.Socket())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	fmt.Fprintf(m.out, "A server that does what it is told listens on http://%s: /mcp, /sse, /ws.\n", l.Addr())
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // nothing here is worth waiting for
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
