package clients_test

import (
	"bytes"
	"net/http/httptest"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/llmtest"
	"github.com/sluicegate/sluice/store/memory"
)

// abroad starts a gateway whose provider of one dialect is dead, so that the model "m" is
// answered by that of the other. It calls a tool, and says "sunny" when that has returned.
func abroad(t *testing.T, dead dialect.Name, dies llmtest.Plan) (url string) {
	t.Helper()
	mock := llmtest.New(llmtest.Options{Plan: func(q *llmtest.Request) llmtest.Plan {
		switch {
		case q.Route.Dialect == dead:
			return dies
		case bytes.Contains(q.Body, []byte(`"tools"`)) && !bytes.Contains(q.Body, []byte("21 degrees")):
			return llmtest.Plan{Input: 40, CacheRead: 30, Output: 12, Tool: true}
		}
		return llmtest.Plan{Input: 40, CacheRead: 30, Output: 12, Text: "sunny"}
	}})
	provider := httptest.NewServer(mock)
	control, err := sluice.Open(&sluice.Policy{Rules: llm.Cooldowns()}, memory.New(memory.Options{}), sluice.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := llm.Options{Identify: identify, Models: []llm.Model{{Name: "m", MaxOutput: 4096}}}
	for _, d := range []dialect.Name{dead, map[dialect.Name]dialect.Name{dialect.OpenAI: dialect.Anthropic, dialect.Anthropic: dialect.OpenAI}[dead]} {
		o.Providers = append(o.Providers, llm.Provider{Name: string(d), Dialect: d, BaseURL: provider.URL + "/v1", Keys: []llm.Key{{ID: "k", Secret: "s"}}})
		o.Models[0].Targets = append(o.Models[0].Targets, llm.Target{Provider: string(d), Translate: true})
	}
	g, err := llm.New(control, o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g)
	t.Cleanup(func() { server.Close(); mock.Close(); provider.Close(); control.Close() })
	return server.URL
}

// deaths are the ways in which a provider dies before its answer has begun.
var deaths = map[string]llmtest.Plan{"refused": {Status: 503}, "overloaded inside of a stream": {FailAt: 1}}

func TestOpenAIAnsweredByAnthropic(t *testing.T) {
	for name, dies := range deaths {
		t.Run("B-33 D24 streamed, "+name, func(t *testing.T) {
			client := openai.NewClient(option.WithBaseURL(abroad(t, dialect.OpenAI, dies)+"/v1"), option.WithAPIKey(tenantKey), option.WithMaxRetries(0))
			q := question("m")
			q.StreamOptions.IncludeUsage = openai.Bool(true)
			s := client.Chat.Completions.NewStreaming(t.Context(), q)
			var sum openai.ChatCompletionAccumulator
			for s.Next() {
				if !sum.AddChunk(s.Current()) {
					t.Errorf("L-121 a chunk that does not fit: %s", s.Current().RawJSON())
				}
			}
			if s.Err() != nil || sum.Choices[0].Message.Content != "sunny" || sum.Choices[0].FinishReason != "stop" || sum.ID != "msg_1" ||
				sum.Usage.PromptTokens != 40 || sum.Usage.CompletionTokens != 12 {
				t.Errorf("L-097 %v %+v", s.Err(), sum.ChatCompletion)
			}
		})
	}
	t.Run("B-33 D24 a tool, there and back", func(t *testing.T) {
		client := openai.NewClient(option.WithBaseURL(abroad(t, dialect.OpenAI, llmtest.Plan{Status: 503})+"/v1"), option.WithAPIKey(tenantKey), option.WithMaxRetries(0))
		q := question("m")
		q.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "weather",
			Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}})}
		a, err := client.Chat.Completions.New(t.Context(), q)
		if err != nil || len(a.Choices[0].Message.ToolCalls) != 1 || a.Usage.PromptTokensDetails.CachedTokens != 30 {
			t.Fatalf("%v %+v", err, a)
		}
		call := a.Choices[0].Message.ToolCalls[0]
		if call.ID != "toolu_1" || call.Function.Name != "weather" || call.Function.Arguments != `{"city":"Paris"}` || a.Choices[0].FinishReason != "tool_calls" {
			t.Errorf("%+v", a.Choices[0])
		}
		q.Messages = append(q.Messages, a.Choices[0].Message.ToParam(), openai.ToolMessage("21 degrees", call.ID))
		if a, err = client.Chat.Completions.New(t.Context(), q); err != nil || a.Choices[0].Message.Content != "sunny" {
			t.Errorf("%v %+v", err, a)
		}
	})
}

func TestAnthropicAnsweredByOpenAI(t *testing.T) {
	for name, dies := range deaths {
		t.Run("B-33 D24 L-122 streamed, "+name, func(t *testing.T) {
			client := anthropic.NewClient(anthropicoption.WithBaseURL(abroad(t, dialect.Anthropic, dies)), anthropicoption.WithAPIKey(tenantKey), anthropicoption.WithMaxRetries(0))
			s := client.Messages.NewStreaming(t.Context(), ask("m"))
			var sum anthropic.Message
			for s.Next() {
				if err := sum.Accumulate(s.Current()); err != nil {
					t.Error(err)
				}
			}
			if s.Err() != nil || len(sum.Content) != 1 || sum.Content[0].Text != "sunny" || sum.StopReason != anthropic.StopReasonEndTurn || sum.ID != "chatcmpl-1" ||
				sum.Usage.OutputTokens != 12 || sum.Usage.InputTokens != 10 || sum.Usage.CacheReadInputTokens != 30 {
				t.Errorf("L-097 %v %+v", s.Err(), sum)
			}
		})
	}
	t.Run("B-33 D24 a tool, there and back", func(t *testing.T) {
		client := anthropic.NewClient(anthropicoption.WithBaseURL(abroad(t, dialect.Anthropic, llmtest.Plan{Status: 503})), anthropicoption.WithAPIKey(tenantKey), anthropicoption.WithMaxRetries(0))
		q := ask("m")
		q.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "weather",
			InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{"city": map[string]any{"type": "string"}}}}}}
		a, err := client.Messages.New(t.Context(), q)
		if err != nil || len(a.Content) != 1 || a.Usage.CacheReadInputTokens != 30 {
			t.Fatalf("%v %+v", err, a)
		}
		call := a.Content[0]
		if call.ID != "call_1" || call.Name != "weather" || string(call.Input) != `{"city":"Paris"}` || a.StopReason != anthropic.StopReasonToolUse {
			t.Errorf("%+v", a)
		}
		q.Messages = append(q.Messages, a.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock(call.ID, "21 degrees", false)))
		if a, err = client.Messages.New(t.Context(), q); err != nil || a.Content[0].Text != "sunny" {
			t.Errorf("%v %+v", err, a)
		}
	})
}
