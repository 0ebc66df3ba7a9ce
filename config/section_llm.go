package config

import "time"

// LLM limits calls to language models, and is the gateway to them where listen.llm is set.
type LLM struct {
	// Whether they are limited.
	Enabled bool `key:"enabled" default:"true"`
	// The longest wait for a provider's quota, in milliseconds. Zero is no time-out.
	QueueTimeoutMs int64 `key:"queueTimeoutMs" default:"5000" min:"0"`
	// How many calls may wait for one provider. Absent is no bound.
	MaxQueueDepth *int64 `key:"maxQueueDepth" min:"0"`
	// By what the line for a provider is shared: each value has its turn. Absent is one line.
	FairBy string `key:"fairBy" format:"dimension"`
	// More than one turn for some values of fairBy.
	Shares []Share `key:"shares" keyed:"Name"`
	// How often a request is sent again after its first attempt, retries and failover together.
	MaxRetries int64 `key:"maxRetries" default:"3" min:"0" max:"10"`
	// The limits of a provider that is not listed. Without it and providers, the built-in ones
	// count: 60 requests and 100000 tokens a minute, 10 calls at once, and more for openai,
	// anthropic, gemini and ollama.
	DefaultPolicy *LLMPolicy `key:"defaultPolicy"`
	// The providers, by name: their limits, and where they are.
	Providers []LLMProvider `key:"providers" keyed:"Name"`
	// Where requests for a model go, by its name or a pattern with "*". A model that is not
	// listed goes to the first provider of the client's dialect.
	Models []LLMModel `key:"models" keyed:"Name"`
	// What each tenant may use, over all providers.
	Tenants *LLMPolicy `key:"tenants"`
	// The same for the tenants of a tier, in the place of tenants.
	Tiers []LLMTier `key:"tiers" keyed:"Name"`
	// Budgets of days, weeks and months.
	Budgets []LLMBudget `key:"budgets"`
	// Whether callers who show no key of this file may use the keys that providers have.
	Anonymous bool `key:"anonymous"`
	// What becomes of requests to paths that are not known: refused, or sent on as requests without tokens.
	UnknownPaths string `key:"unknownPaths" enum:"refuse|forward" default:"refuse"`
	// What becomes of a body that cannot be read: refused, or sent on and charged by its size.
	Malformed string `key:"malformed" enum:"refuse|forward" default:"refuse"`
	// Bytes of a request's body.
	BodyBytes int64 `key:"bodyBytes" default:"33554432" min:"1024" max:"1073741824"`
	// The longest wait for the head of an answer.
	HeaderTimeout time.Duration `key:"headerTimeout" default:"600s" min:"1s"`
	// How long the beginning of a stream is held back, so that a failure before its first content
	// can be met elsewhere.
	PreambleTimeout time.Duration `key:"preambleTimeout" default:"30s" min:"1ms"`
	// Tokens of a picture of which no size is known.
	ImageTokens int64 `key:"imageTokens" default:"1100" min:"1"`
	// Tokens of a piece of sound.
	AudioTokens int64 `key:"audioTokens" default:"1000" min:"1"`
	// Tokens of a document.
	FileTokens int64 `key:"fileTokens" default:"3000" min:"1"`
	// When an answer is broken off that does not end.
	MaxDuration time.Duration `key:"maxDuration" default:"1h" min:"1s"`
}

// LLMPolicy is what one provider or tenant may take. What is absent is unlimited; zero denies everything.
type LLMPolicy struct {
	// Requests a minute.
	RequestsPerMinute *int64 `key:"requestsPerMinute" alias:"rpm" min:"0"`
	// How many requests may come at once. Absent is a whole minute's.
	RequestsBurst *int64 `key:"requestsBurst" min:"1"`
	// Requests a day.
	RequestsPerDay *int64 `key:"requestsPerDay" alias:"rpd" min:"0"`
	// Tokens a minute, in and out.
	TokensPerMinute *int64 `key:"tokensPerMinute" alias:"tpm" min:"0"`
	// Tokens a minute that are read.
	InputTokensPerMinute *int64 `key:"inputTokensPerMinute" alias:"itpm" min:"0"`
	// Tokens a minute that are written.
	OutputTokensPerMinute *int64 `key:"outputTokensPerMinute" alias:"otpm" min:"0"`
	// Whether no minute at all may see more than the limits a minute. Otherwise they are buckets
	// that hold a minute's units, so that a minute after a quiet time may see two of them.
	AnyMinute bool `key:"anyMinute"`
	// Tokens a day, in and out.
	TokensPerDay *int64 `key:"tokensPerDay" alias:"tpd" min:"0"`
	// Calls at once.
	MaxConcurrentCalls *int64 `key:"maxConcurrentCalls" min:"0"`
}

// LLMTier is what the tenants of a tier may take.
type LLMTier struct {
	Name string
	LLMPolicy
}

// LLMProvider is a provider by name.
type LLMProvider struct {
	Name string
	LLMPolicy
	// What it speaks. Absent is what the provider of that name does, and openai for others.
	Dialect string `key:"dialect" enum:"|openai|anthropic|gemini|ollama"`
	// What its endpoints follow, as its SDK has it: "https://api.openai.com/v1". The text {model}
	// becomes the model's name. Absent is the address of the provider of that name.
	BaseURL string `key:"baseUrl" format:"base-url"`
	// Its credentials, ${NAME} or file:PATH each. With none, clients send their own.
	Keys []Secret `key:"keys" secret:"only"`
	// The header that carries a key, if it is not the dialect's own.
	KeyHeader string `key:"keyHeader" format:"header"`
	// Whether limits count for each credential on its own, and for each model.
	LimitPer []string `key:"limitPer" enum:"credential|model"`
	// Whether it accepts stream_options, by which a stream tells its usage.
	StreamUsage bool `key:"streamUsage" default:"true"`
	// Whether it charges for answers whose client has left, so that they are read to their end.
	Drain bool `key:"drain"`
	// How it counts tokens towards its limits. Absent is how one of its dialect does.
	Counts *LLMCounts `key:"counts"`
}

// LLMCounts says how a provider counts: thousandths of a token for each token.
type LLMCounts struct {
	// Input that was read afresh.
	Input int64 `key:"input" default:"1000" min:"0" max:"100000"`
	// Input that came from a cache.
	CacheRead int64 `key:"cacheRead" default:"1000" min:"0" max:"100000"`
	// Input that was written to a cache.
	CacheWrite int64 `key:"cacheWrite" default:"1000" min:"0" max:"100000"`
	// Output.
	Output int64 `key:"output" default:"1000" min:"0" max:"100000"`
	// What is taken for the output in advance: what the request allows, what was learned, or nothing.
	Reserve string `key:"reserve" enum:"requested|learned|none" default:"requested"`
}

// LLMModel is a model by its name or a pattern.
type LLMModel struct {
	Name string
	// Where requests for it go, in order.
	Targets []LLMTarget `key:"targets" required:"true" min:"1"`
	// How many tokens it can write, at every target. Absent is not known.
	MaxOutputTokens int64 `key:"maxOutputTokens" min:"0"`
	// What a million tokens cost that are read: "2.50".
	InputPrice float64 `key:"inputPrice"`
	// What a million cost that come from a cache.
	CacheReadPrice float64 `key:"cacheReadPrice"`
	// What a million cost that are written to a cache.
	CacheWritePrice float64 `key:"cacheWritePrice"`
	// What a million cost that are written.
	OutputPrice float64 `key:"outputPrice"`
}

// LLMTarget is a model at a provider.
type LLMTarget struct {
	// The provider.
	Provider string `key:"provider" required:"true"`
	// The model's name there. Absent is the name that was asked for.
	Model string `key:"model"`
	// Whether requests of the other dialect may come here, translated: of OpenAI's chat and Anthropic's
	// messages. One that would lose something passes the target by.
	Translate bool `key:"translate"`
}

// LLMBudget is what may be used in each day, week or month of the calendar.
type LLMBudget struct {
	// Its id, unique among budgets.
	ID string `key:"id" required:"true" format:"plain-id"`
	// The period.
	Per string `key:"per" enum:"day|week|month" default:"month"`
	// Where midnight is: a name such as "Europe/Berlin".
	TimeZone string `key:"timeZone" default:"UTC" format:"zone"`
	// Money, in the currency of the prices.
	Money *float64 `key:"money" alias:"dollars"`
	// Tokens, in and out.
	Tokens *int64 `key:"tokens" min:"0"`
	// Requests.
	Requests *int64 `key:"requests" min:"0"`
	// Which dimensions have a budget for each value. Absent is one for each tenant.
	GroupBy []string `key:"groupBy" format:"dimension" default:"tenant"`
	// Which requests. Absent is all.
	Match Match `key:"match"`
}
