package llm

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/llm/dialect"
	"github.com/sluicegate/sluice/llm/estimate"
)

// A Provider is where requests are sent.
type Provider struct {
	// Name is what rules match as the provider, and may be the first segment of a request's
	// path: letters, digits, "-", "_" and ".".
	Name string
	// Dialect is what it speaks.
	Dialect dialect.Name
	// BaseURL is what its endpoints follow, as its SDK has it: "https://api.openai.com/v1",
	// "https://generativelanguage.googleapis.com/v1beta", "http://localhost:11434". The text
	// {model} in it becomes the model's name, as Azure's deployments need.
	BaseURL string
	// Keys are the credentials that the gateway holds. With none, the client's own
	// credential is passed through.
	Keys []Key
	// KeyHeader is the header that carries a key, if it is not the dialect's own: "api-key".
	KeyHeader string
	// Header is sent with each request, in place of the client's fields of the same name.
	Header http.Header
	// Accounting is how the provider counts tokens. Nil is how one that speaks this dialect
	// does ([AccountingOf]).
	Accounting *Accounting
	// NoStreamUsage says that it does not accept stream_options.
	NoStreamUsage bool
	// Drain says that it charges for the whole answer although the client has gone. The
	// answer then is read to its end, for at most DrainTime.
	Drain bool
}

// A Key is a credential of a provider. ID names it in rules, logs and metrics; Secret
// appears in none of them.
type Key struct{ ID, Secret string }

// A Model says where requests for a model go.
type Model struct {
	// Name is the model as clients ask for it, or a pattern with "*".
	Name string
	// Targets are tried in order.
	Targets []Target
	// MaxOutput is how many tokens the model can write. Zero is not known.
	MaxOutput int64
	// Price is what its tokens cost. The zero Price is nothing.
	Price Price
}

// A Target is a model at a provider. An empty Model is the one that was asked for.
type Target struct {
	Provider, Model string
	// Translate lets requests of the other dialect come here too: OpenAI's chat to Anthropic,
	// and Anthropic's messages to OpenAI. One that cannot be translated without loss passes
	// the target by (package translate says which). The client's credential does not go along.
	Translate bool
}

// A Caller is who sends a request, as far as that was checked.
type Caller struct {
	Subject, Tenant, Tier, IP string
	// Own says that the credential which the request shows is the gateway's own business: it
	// is sent to no provider.
	Own bool
}

// Options of a Gateway.
type Options struct {
	Providers []Provider
	// Models are matched by exact name first, then in order. A request for a model that is
	// not listed goes to the provider that its path names, or to the first provider of its
	// dialect.
	Models []Model
	// Address says where a request comes from, as rules know it, and from which site if that
	// is more than one network. Nil is the peer's address.
	Address func(r *http.Request) (ip, site string)
	// Identify says who sends a request, from the credential that it shows; the Caller's IP is
	// filled in. An error answers it with 401; its text is shown, and if a credential was
	// shown, it counts as a call of kind [KindFailure]. Nil takes everybody for their address.
	Identify func(r *http.Request, credential string) (Caller, error)
	// Unknown admits requests to paths that nobody here knows, as requests without tokens.
	// Otherwise they are refused.
	Unknown bool
	// Malformed forwards a body that cannot be read, charged by its size. Otherwise it is
	// refused.
	Malformed bool
	// MaxBody bounds a request's body, in bytes. Zero is 32 MiB.
	MaxBody int64
	// MaxBodies bounds the bodies of all requests that are under way or wait, in bytes. Zero is
	// 1 GiB.
	MaxBodies int64
	// BodyTime bounds how long a request's body takes to arrive. Zero is 2 minutes.
	BodyTime time.Duration
	// MaxAttempts bounds how often one request is sent to anybody, retries and failover
	// together. Zero is 3.
	MaxAttempts int
	// QueueTimeout bounds the waiting of a request for admission, over all its attempts.
	// Zero is no bound.
	QueueTimeout time.Duration
	// HeaderTimeout bounds the wait for the header of an answer. Zero is 10 minutes.
	HeaderTimeout time.Duration
	// PreambleTime bounds how long the beginning of a stream is held back. Zero is 30 s.
	PreambleTime time.Duration
	// MaxDuration ends an answer that takes longer. Zero is an hour.
	MaxDuration time.Duration
	// DrainTime bounds how long an answer is read whose client has gone. Zero is a minute.
	DrainTime time.Duration
	// Estimator estimates requests. Nil is a new one.
	Estimator *estimate.Estimator
	// Observer is told what happens.
	Observer Observer
	// Base makes the requests. Nil is an http.Transport made for this.
	Base http.RoundTripper
	// Logger gets what goes wrong when nobody is there to be told. Nil is silence.
	Logger *slog.Logger
}

// withDefaults fills in what is absent.
func (o Options) withDefaults() Options {
	for _, d := range []struct {
		v       *time.Duration
		initial time.Duration
	}{{&o.HeaderTimeout, 10 * time.Minute}, {&o.PreambleTime, 30 * time.Second}, {&o.MaxDuration, time.Hour}, {&o.DrainTime, time.Minute},
		{&o.BodyTime, 2 * time.Minute}} {
		if *d.v <= 0 {
			*d.v = d.initial
		}
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 32 << 20
	}
	if o.MaxBodies <= 0 {
		o.MaxBodies = 1 << 30
	}
	if o.MaxAttempts <= 0 {
		o.MaxAttempts = 3
	}
	if o.Estimator == nil {
		o.Estimator = estimate.New(estimate.Options{})
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Base == nil {
		o.Base = newTransport(o.HeaderTimeout)
	}
	return o
}

// newTransport returns a client's transport that changes no byte of an answer.
func newTransport(header time.Duration) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true // usage is read from the bytes that pass
	t.ResponseHeaderTimeout = header
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 1000, 200
	return t
}

// check reports everything that is wrong with o.
func (o *Options) check() error {
	var errs []error
	known := map[string]bool{}
	for i := range o.Providers {
		p := &o.Providers[i]
		if known[p.Name] {
			errs = append(errs, fmt.Errorf("llm: two providers are named %q", p.Name))
		}
		known[p.Name] = true
		errs = append(errs, p.check())
	}
	for i := range o.Models {
		m := &o.Models[i]
		if m.Name == "" {
			errs = append(errs, errors.New("llm: a model needs a name, or a pattern with *"))
		}
		if len(m.Targets) == 0 {
			errs = append(errs, fmt.Errorf("llm: the model %q has no target", m.Name))
		}
		for _, t := range m.Targets {
			if !known[t.Provider] {
				errs = append(errs, fmt.Errorf("llm: the model %q names a provider %q that is not there", m.Name, t.Provider))
			}
			if d := o.speaks(t.Provider); t.Translate && d != "" && d != dialect.OpenAI && d != dialect.Anthropic {
				errs = append(errs, fmt.Errorf("llm: the model %q has a target with translate at %q, which speaks %s; only openai and anthropic are translated", m.Name, t.Provider, d))
			}
		}
	}
	return errors.Join(errs...)
}

// speaks returns a provider's dialect, empty if there is no such provider.
func (o *Options) speaks(provider string) dialect.Name {
	for i := range o.Providers {
		if o.Providers[i].Name == provider {
			return o.Providers[i].Dialect
		}
	}
	return ""
}

func (p *Provider) check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("llm: the provider %q "+format, append([]any{p.Name}, args...)...))
	}
	if p.Name == "" || strings.IndexFunc(p.Name, notInName) >= 0 || slices.Contains(inPaths, p.Name) {
		bad("needs a name of ASCII letters, digits and \"-_.\" that is none of %v", inPaths)
	}
	u, err := url.Parse(strings.ReplaceAll(p.BaseURL, modelPlace, "model"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		bad("needs a base URL like https://api.openai.com/v1, without a password")
	} else if at, _, _ := strings.Cut(p.BaseURL[strings.Index(p.BaseURL, "//")+2:], "/"); strings.Contains(at, modelPlace) {
		bad("has a model's name in its host, so that clients would choose the host")
	}
	switch p.Dialect {
	case dialect.OpenAI, dialect.Anthropic, dialect.Gemini, dialect.Ollama:
	default:
		bad("speaks %q; the dialects are %v", p.Dialect, dialect.Names())
	}
	ids := map[string]bool{}
	for _, k := range p.Keys {
		if k.ID == "" || k.Secret == "" || ids[k.ID] {
			bad("needs keys that have a secret and an ID of their own")
		}
		ids[k.ID] = true
	}
	return errors.Join(errs...)
}

// inPaths are first segments of paths that SDKs use.
var inPaths = []string{"v1", "v1beta", "v1beta1", "v1alpha", "v2", "api"}

func notInName(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
}

// modelPlace stands for the model's name in a base URL.
const modelPlace = "{model}"
