package clients_test

import (
	"context"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func ask(model string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{Model: model, MaxTokens: 50, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))}}
}

func TestAnthropic(t *testing.T) {
	r := start(t)
	client := anthropic.NewClient(option.WithBaseURL(r.url), option.WithAPIKey(tenantKey))
	t.Run("whole", func(t *testing.T) {
		a, err := client.Messages.New(t.Context(), ask("mock:text=hello"))
		if err != nil || a.Content[0].Text != "hello" || a.Usage.OutputTokens != 16 {
			t.Errorf("%v %v", a, err)
		}
	})
	t.Run("streamed, a tool", func(t *testing.T) {
		s := client.Messages.NewStreaming(t.Context(), ask("mock:tool"))
		var sum anthropic.Message
		for s.Next() {
			if err := sum.Accumulate(s.Current()); err != nil {
				t.Error(err)
			}
		}
		if s.Err() != nil || sum.Content[0].Name != "weather" || sum.StopReason != anthropic.StopReasonToolUse {
			t.Errorf("%v %+v", s.Err(), sum)
		}
	})
	t.Run("L-110 overloaded before it begins, and then not", func(t *testing.T) {
		s := client.Messages.NewStreaming(t.Context(), ask("mock:fail-at=1"), option.WithMaxRetries(0))
		for s.Next() {
		}
		if s.Err() == nil {
			t.Error("no attempt went well, and the client was told nothing")
		}
	})
	t.Run("count tokens", func(t *testing.T) {
		a, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{Model: "m", Messages: ask("m").Messages})
		if err != nil || a.InputTokens == 0 {
			t.Errorf("%v %v", a, err)
		}
	})
	t.Run("L-026 a client that leaves frees everything", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := client.Messages.NewStreaming(ctx, ask("mock:output=50,chunks=50,between=20ms"))
		s.Next()
		cancel()
		s.Close()
		gone(t, r)
	})
}
