package config

// LLM limits calls to language models.
type LLM struct {
	// Whether they are limited.
	Enabled bool `key:"enabled" default:"true"`
	// The longest wait for a provider's quota, in milliseconds. Zero is no time-out.
	QueueTimeoutMs int64 `key:"queueTimeoutMs" default:"5000" min:"0"`
	// How many calls may wait for one provider. Absent is no bound.
	MaxQueueDepth *int64 `key:"maxQueueDepth" min:"0"`
	// How often a call is tried again after 429 or 503.
	MaxRetries int64 `key:"maxRetries" default:"3" min:"0" max:"10"`
	// The limits of a provider that is not listed.
	DefaultPolicy *LLMPolicy `key:"defaultPolicy"`
	// The limits of each provider, by name.
	Providers []LLMProvider `key:"providers" keyed:"Name"`
}

// LLMPolicy is what one provider allows. What is absent is unlimited; zero denies everything.
type LLMPolicy struct {
	// Requests a minute.
	RequestsPerMinute *int64 `key:"requestsPerMinute" min:"0"`
	// Tokens a minute, in and out.
	TokensPerMinute *int64 `key:"tokensPerMinute" min:"0"`
	// Calls at once.
	MaxConcurrentCalls *int64 `key:"maxConcurrentCalls" min:"0"`
}

// LLMProvider is a provider by name.
type LLMProvider struct {
	Name string
	LLMPolicy
}
