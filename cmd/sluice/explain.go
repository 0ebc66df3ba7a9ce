package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/gate"
	"github.com/sluicegate/sluice/store/memory"
)

// A question is a request that is asked about. It is what explain sends to a running
// sluice.
type question struct {
	Method string      `json:"method"`
	Target string      `json:"target"` // a path with a query, or a URL
	Header http.Header `json:"header,omitempty"`
	Body   string      `json:"body,omitempty"`
	From   string      `json:"from"` // the peer's address, or "unix"
}

// request makes the request.
func (q *question) request(ctx context.Context) (*http.Request, error) {
	u, err := url.ParseRequestURI(q.Target)
	if err != nil {
		return nil, fmt.Errorf("%q is no path and no URL; a server answers it with 400", q.Target)
	}
	r, err := http.NewRequestWithContext(ctx, q.Method, u.String(), strings.NewReader(q.Body))
	if err != nil {
		return nil, err
	}
	if r.Header = q.Header.Clone(); r.Header == nil {
		r.Header = http.Header{}
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
		r.Header.Del("Host") // net/http keeps it apart
	}
	r.RemoteAddr = "@"
	if q.From != "unix" {
		a, err := netip.ParseAddr(q.From)
		if err != nil {
			return nil, fmt.Errorf("%q is no address; write one such as 203.0.113.9, or unix", q.From)
		}
		r.RemoteAddr = net.JoinHostPort(a.String(), "0")
	}
	return r, nil
}

// An explainer is the explain command.
type explainer struct {
	source
	remote
	question
	headers []string
	asJSON  bool
	models  bool // ask the gateway to language models
	broker  bool // ask the MCP broker
	call    callQuestion
}

func newExplain(s streams) *cobra.Command {
	var x explainer
	cmd := &cobra.Command{
		Use:   "explain [PATH|SLOT]",
		Short: "Say what would happen to a request, and why",
		Long: `Takes one request through the gate and says what each step makes of it: whose address
it is, who calls, which rules are about it and which are not, what they would take, and
what the answer would say. Nothing is taken. --llm and --mcp ask the other surfaces.

With --config, or without anything, the request meets full limits. With --addr a running
sluice is asked, and it meets the limits as they are.`,
		Example: `  sluice explain /api/v1/users --config sluice.yaml --from 203.0.113.9
  sluice explain /api/v1/users -X POST -H 'X-API-Key: slk_…' --addr 127.0.0.1:9090
  sluice explain --llm /v1/chat/completions -d @request.json --addr 127.0.0.1:9090
  sluice explain --mcp scada --tool scada.write --subject user:alice --config sluice.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usageError{errors.New("it takes one path")}
			case x.addr != "" && len(x.files)+len(x.set) > 0:
				return usageError{errors.New("--addr asks a running sluice, which has a configuration; leave out --config and --set")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if x.broker {
				return x.runCall(cmd.Context(), s, strings.Join(args, ""))
			}
			if x.Target = "/"; len(args) > 0 {
				x.Target = args[0]
			}
			return x.run(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	x.source.flags(f)
	x.remote.flags(f, "", "the `address` of a running sluice's administration, such as "+defaultAdmin)
	f.StringVarP(&x.Method, "request", "X", http.MethodGet, "the `method`")
	f.StringArrayVarP(&x.headers, "header", "H", nil, "a header as `'Name: value'`")
	f.StringVarP(&x.Body, "data", "d", "", "the body, or @`file`")
	f.StringVar(&x.From, "from", "127.0.0.1", "the `address` that the connection comes from, or unix")
	f.BoolVar(&x.models, "llm", false, "ask the gateway to language models")
	f.BoolVar(&x.broker, "mcp", false, "ask the MCP broker about a request at a slot")
	f.StringVar(&x.call.Method, "method", toolsCall, "with --mcp: the `method`")
	f.StringVar(&x.call.Tool, "tool", "", "with --mcp: the `tool`")
	f.StringArrayVar(&x.call.Subjects, "subject", nil, "with --mcp: a `subject` of the caller, such as user:alice; none is anonymous")
	cmd.MarkFlagsMutuallyExclusive("llm", "mcp")
	f.BoolVar(&x.asJSON, "json", false, "print JSON")
	return cmd
}

// runModels asks about a request for a language model.
func (x *explainer) runModels(ctx context.Context, s streams) (err error) {
	if x.Method == http.MethodGet && x.Body != "" {
		x.Method = http.MethodPost
	}
	var a *modelAnswer
	if x.addr != "" {
		err = x.ask(ctx, http.MethodPost, explainModelsPath, &x.question, &a)
	} else {
		a, err = x.offlineModels(ctx, s.err)
	}
	switch {
	case err != nil:
		return err
	case x.asJSON:
		return writeJSON(s.out, a)
	}
	return a.write(s.out)
}

func (x *explainer) run(ctx context.Context, s streams) error {
	if err := x.read(); err != nil {
		return err
	}
	if x.models {
		return x.runModels(ctx, s)
	}
	var a *answer
	var err error
	if x.addr != "" {
		err = x.ask(ctx, http.MethodPost, explainPath, &x.question, &a)
	} else {
		a, err = x.offline(ctx, s.err)
	}
	if err != nil {
		return err
	}
	if x.asJSON {
		return writeJSON(s.out, a)
	}
	return a.write(s.out)
}

// read turns flags into the question.
func (x *explainer) read() error {
	x.Header = http.Header{}
	for _, h := range x.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return usageError{fmt.Errorf("%q is no header; write 'Name: value'", h)}
		}
		x.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if path, ok := strings.CutPrefix(x.Body, "@"); ok {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		x.Body = string(text)
	}
	return nil
}

// offline asks a gate of its own, whose limits are full.
func (x *explainer) offline(ctx context.Context, warn io.Writer) (*answer, error) {
	c, controller, err := x.full(warn)
	if err != nil {
		return nil, err
	}
	o, err := gateOptions(c, slog.New(slog.NewTextHandler(warn, nil)))
	if err != nil {
		return nil, err
	}
	g, err := gate.New(controller, o)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	return explain(ctx, g, &x.question)
}

// full returns the configuration, and a controller for it whose limits are full: its store is
// this process's memory, and is asked by nobody else.
func (x *explainer) full(warn io.Writer) (*config.Config, *sluice.Controller, error) {
	c, err := x.loadAloud(warn)
	if err != nil {
		return nil, nil, err
	}
	controller, err := sluice.Open(c.Policy(), memory.New(memory.Options{}), sluice.Options{})
	return c, controller, err
}

// explainPath is where a running sluice is asked.
const explainPath = "/api/v1/explain"

// explainLive answers explain at the administration.
func explainLive(g *gate.Gate) http.Handler {
	return answering(func(ctx context.Context, q *question) (any, error) { return explain(ctx, g, q) })
}

// answering answers questions at the administration.
func answering[Q any](answer func(context.Context, *Q) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q Q
		var a any
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&q)
		if err == nil {
			a, err = answer(r.Context(), &q)
		}
		if err != nil {
			badRequest(w, "This cannot be explained.", err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = writeJSON(w, a) // whoever asked has gone if it fails
	})
}

// badRequest answers with a problem of RFC 9457.
func badRequest(w http.ResponseWriter, title string, err error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusBadRequest)
	_ = writeJSON(w, map[string]any{"title": title, "status": http.StatusBadRequest, "detail": err.Error()})
}

func explain(ctx context.Context, g *gate.Gate, q *question) (*answer, error) {
	r, err := q.request(ctx)
	if err != nil {
		return nil, err
	}
	e, err := g.Explain(ctx, r)
	if err != nil {
		return nil, err
	}
	return newAnswer(q, e), nil
}
