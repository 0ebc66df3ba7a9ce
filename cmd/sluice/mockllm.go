package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/llm/llmtest"
)

// A mockLLM is a provider of language models that is none.
type mockLLM struct {
	streams
	listen     string
	model      string
	latency    time.Duration
	failing    float64 // share of requests that are refused with 429
	retryAfter time.Duration
	seed       uint64
}

func newMockLLM(s streams) *cobra.Command {
	m := mockLLM{streams: s}
	cmd := &cobra.Command{
		Use:   "mock-llm",
		Short: "Stand for a provider of language models, for tests",
		Long: `Answers the APIs of OpenAI, Anthropic, Gemini and Ollama, whole and streamed, with text
that says nothing, and fails as it is asked to. A model's name may be a plan:

  mock:output=200,chunks=64,between=20ms      200 tokens in 64 pieces
  mock:status=429,retry-after=2s              a refusal
  mock:fail-at=3,code=overloaded_error        an error in the middle of a stream
  mock:cut-at=3                               a connection that breaks

Point a gateway's baseUrl at it, or an SDK.`,
		Example: `  sluice mock-llm --listen 127.0.0.1:8090
  sluice mock-llm --plan mock:output=500,between=10ms --fail 0.05`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&m.listen, "listen", "127.0.0.1:8090", "the address to listen on")
	f.StringVar(&m.model, "plan", "", "what happens to requests whose model is no plan")
	f.DurationVar(&m.latency, "latency", 0, "what passes before each answer")
	f.Float64Var(&m.failing, "fail", 0, "the share of requests that are refused with 429, 0 to 1")
	f.DurationVar(&m.retryAfter, "retry-after", time.Second, "what those refusals ask for")
	f.Uint64Var(&m.seed, "seed", 1, "which requests those are")
	return cmd
}

func (m *mockLLM) run(ctx context.Context) error {
	initial, err := llmtest.ParsePlan(m.model)
	if err != nil {
		return usageError{err}
	}
	if m.failing < 0 || m.failing > 1 {
		return usageError{fmt.Errorf("--fail is a share, 0 to 1, and not %v", m.failing)}
	}
	l, err := net.Listen("tcp", m.listen)
	if err != nil {
		return err
	}
	mock := llmtest.New(llmtest.Options{Plan: m.plan(initial)})
	server := &http.Server{Handler: mock, ReadHeaderTimeout: 5 * time.Second}
	fmt.Fprintf(m.out, "A provider that is none listens on http://%s: /v1/chat/completions, /v1/messages, /v1beta/models/…, /api/chat.\n", l.Addr())
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // nothing here is worth waiting for
	defer stop()
	defer mock.Close()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// plan is what happens to each request: what its model says, or initial, and now and then a
// refusal.
func (m *mockLLM) plan(initial llmtest.Plan) func(*llmtest.Request) llmtest.Plan {
	return func(r *llmtest.Request) llmtest.Plan {
		p, err := llmtest.ParsePlan(r.Model)
		switch draw := rand.New(rand.NewPCG(m.seed, uint64(r.N))); {
		case err != nil:
			return llmtest.Plan{Status: http.StatusBadRequest, Code: err.Error()}
		case draw.Float64() < m.failing:
			return llmtest.Plan{Status: http.StatusTooManyRequests, RetryAfter: m.retryAfter}
		case p == llmtest.Plan{}:
			p = initial
		}
		if p.Latency == 0 {
			p.Latency = m.latency
		}
		return p
	}
}
