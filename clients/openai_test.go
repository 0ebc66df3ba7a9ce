package clients_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

func openAI(r *rig, o ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(r.url + "/v1"), option.WithAPIKey(tenantKey)}, o...)...)
}

func question(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, MaxTokens: openai.Int(50), Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
}

func TestOpenAI(t *testing.T) {
	r := start(t)
	client := openAI(r)
	t.Run("whole", func(t *testing.T) {
		a, err := client.Chat.Completions.New(t.Context(), question("mock:text=hello"))
		if err != nil || a.Choices[0].Message.Content != "hello" || a.Usage.CompletionTokens != 16 {
			t.Errorf("%v %v", a, err)
		}
	})
	t.Run("streamed, without usage that nobody asked for", func(t *testing.T) {
		s := client.Chat.Completions.NewStreaming(t.Context(), question("mock:text=hello,chunks=5"))
		var sum openai.ChatCompletionAccumulator
		for s.Next() {
			sum.AddChunk(s.Current())
		}
		if s.Err() != nil || sum.Choices[0].Message.Content != "hello" || sum.Usage.TotalTokens != 0 {
			t.Errorf("%v %+v", s.Err(), sum.ChatCompletion)
		}
	})
	t.Run("streamed, with usage", func(t *testing.T) {
		q := question("mock:text=hello")
		q.StreamOptions.IncludeUsage = openai.Bool(true)
		s := client.Chat.Completions.NewStreaming(t.Context(), q)
		var sum openai.ChatCompletionAccumulator
		for s.Next() {
			sum.AddChunk(s.Current())
		}
		if s.Err() != nil || sum.Usage.CompletionTokens != 16 {
			t.Errorf("%v %+v", s.Err(), sum.Usage)
		}
	})
	t.Run("a tool", func(t *testing.T) {
		a, err := client.Chat.Completions.New(t.Context(), question("mock:tool"))
		if err != nil || len(a.Choices[0].Message.ToolCalls) != 1 || a.Choices[0].Message.ToolCalls[0].Function.Name != "weather" {
			t.Errorf("%v %v", a, err)
		}
	})
	t.Run("responses", func(t *testing.T) {
		a, err := client.Responses.New(t.Context(), responses.ResponseNewParams{Model: "mock:text=hello",
			Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hi")}})
		if err != nil || a.OutputText() != "hello" {
			t.Errorf("%v %v", a, err)
		}
	})
	t.Run("embeddings", func(t *testing.T) {
		a, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "e", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("hi")}})
		if err != nil || len(a.Data) != 1 {
			t.Errorf("%v %v", a, err)
		}
	})
	t.Run("L-012 what can never pass is not sent again", func(t *testing.T) {
		before, began := r.mock.Requests(), time.Now()
		q := question("tight")
		q.MaxTokens = openai.Int(5000)
		_, err := client.Chat.Completions.New(t.Context(), q)
		refused, ok := errors.AsType[*openai.Error](err)
		if !ok || refused.StatusCode != 429 || time.Since(began) > time.Second || r.mock.Requests() != before {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
	t.Run("A-73 a failure in the middle is one for the client too", func(t *testing.T) {
		s := client.Chat.Completions.NewStreaming(t.Context(), question("mock:cut-at=3,silent"))
		n := 0
		for s.Next() {
			n++
		}
		if s.Err() == nil || n == 0 {
			t.Errorf("%d chunks, %v", n, s.Err())
		}
	})
	t.Run("L-026 a client that leaves frees everything", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := client.Chat.Completions.NewStreaming(ctx, question("mock:output=1000,chunks=1000,between=20ms"))
		s.Next()
		cancel()
		s.Close()
		gone(t, r)
	})
}
