package clients_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/limit"
	"github.com/sluicegate/sluice/llm"
	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/llmtest"
	"github.com/sluicegate/sluice/store/memory"
)

// A program that calls OpenAI's API keeps to its tokens a minute, and to its own.
func Example() {
	provider := httptest.NewServer(llmtest.New(llmtest.Options{})) // https://api.openai.com
	defer provider.Close()

	control, err := sluice.Open(&sluice.Policy{Rules: []sluice.Rule{{
		ID:     "openai",
		Match:  sluice.Match{Is: map[sluice.Dimension][]string{sluice.Kind: {llm.KindAttempt}}},
		Limits: []sluice.Limit{{Limit: limit.Bucket(200_000, limit.Minute, 200_000), Unit: sluice.Tokens}},
		Queue:  &sluice.Queue{},
	}}}, memory.New(memory.Options{}), sluice.Options{})
	if err != nil {
		panic(err)
	}
	gateway, err := llm.New(control, llm.Options{Providers: []llm.Provider{{Name: "openai", Dialect: dialect.OpenAI, BaseURL: provider.URL + "/v1"}}})
	if err != nil {
		panic(err)
	}
	client := openai.NewClient(option.WithBaseURL(provider.URL+"/v1"), option.WithAPIKey("sk-…"),
		option.WithHTTPClient(&http.Client{Transport: gateway.Transport()}), option.WithMaxRetries(0))
	answer, err := client.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
		Model:    "mock:text=Hello.",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say hello.")},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(answer.Choices[0].Message.Content)
	// Output: Hello.
}
