package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"runtime"
	"time"
	"unicode/utf8"
)

// status is the body of GET /actuator/ratelimits. Its first half has the shape of the
// ADR's reference implementation, so that what reads that reads this.
type status struct {
	Enabled           bool            `json:"enabled"`
	Backend           string          `json:"backend"`
	DefaultTier       string          `json:"defaultTier"`
	ActiveBuckets     int64           `json:"activeBuckets"`
	StoreStats        storeStats      `json:"storeStats"`
	Tiers             map[string]Tier `json:"tiers"`
	Endpoints         []Endpoint      `json:"endpoints"`
	LLMEnabled        bool            `json:"llmEnabled"`
	ChannelsEnabled   bool            `json:"channelsEnabled"`
	ConnectorsEnabled bool            `json:"connectorsEnabled"`

	Decisions  map[string]uint64 `json:"decisions"` // by outcome, since the start
	Rules      []ruleView        `json:"rules"`
	TopTalkers []talkerView      `json:"topTalkers"`
	State      stateView         `json:"state"`
}

type storeStats struct {
	Backend       string `json:"backend"`
	ActiveBuckets int64  `json:"activeBuckets"`
	HitCount      int64  `json:"hitCount"`
	MissCount     int64  `json:"missCount"`
	EvictionCount int64  `json:"evictionCount"`
	OverflowCount int64  `json:"overflowCount"`
	TTLMinutes    int64  `json:"ttlMinutes,omitempty"`
	MaxSize       int64  `json:"maxSize,omitempty"`
	StateBytes    int64  `json:"stateBytes,omitempty"`
	RecordCount   int64  `json:"recordCount,omitempty"`
	Degraded      bool   `json:"degraded"`
}

func (a *Admin) getRateLimits(w http.ResponseWriter, _ *http.Request) {
	sum, st := a.opts.Summary(), a.opts.Stats()
	s := status{
		Enabled: sum.Enabled, Backend: st.Backend, DefaultTier: sum.DefaultTier, ActiveBuckets: st.Keys,
		StoreStats: storeStats{
			Backend: st.Backend, ActiveBuckets: st.Keys, HitCount: st.Hits, MissCount: st.Misses,
			EvictionCount: st.Evictions, OverflowCount: st.Overflow, TTLMinutes: int64(st.TTL / time.Minute),
			MaxSize: st.MaxKeys, StateBytes: st.Bytes, RecordCount: st.Records, Degraded: st.Degraded,
		},
		Tiers: sum.Tiers, Endpoints: sum.Endpoints,
		LLMEnabled: sum.LLMEnabled, ChannelsEnabled: sum.ChannelsEnabled, ConnectorsEnabled: sum.ConnectorsEnabled,
		Decisions: byName(a.tally.Overall()), Rules: a.viewRules(0), TopTalkers: a.viewTalkers(topTalkers), State: a.viewState(),
	}
	if s.Tiers == nil {
		s.Tiers = map[string]Tier{}
	}
	if s.Endpoints == nil {
		s.Endpoints = []Endpoint{}
	}
	answer(w, http.StatusOK, s)
}

// resetRequest is the body of POST /actuator/ratelimits/reset. Both fields may come in
// the query instead.
type resetRequest struct {
	Key   string `json:"key"`
	Scope string `json:"scope"`
}

// keyMax bounds an identity in a request, in bytes.
const keyMax = 1024

func (a *Admin) postReset(w http.ResponseWriter, r *http.Request, who string) {
	req, err := readReset(w, r)
	if err != nil {
		problem(w, http.StatusBadRequest, "The reset is not understood.", err.Error())
		return
	}
	if req.Scope == "all" {
		a.resetAll(w, r, who)
		return
	}
	n, err := a.opts.Reset(r.Context(), req.Key)
	a.audit(r, who, "reset", err, "key", req.Key, "cells", n)
	if err != nil {
		problem(w, http.StatusServiceUnavailable, "The store did not do it.", "Nothing or only a part was reset; ask again. The log has the cause.")
		return
	}
	message := "No state is kept for this identity; nothing was to be reset."
	if n > 0 {
		message = fmt.Sprintf("Reset %d of the identity's limits.", n)
	}
	answer(w, http.StatusOK, struct {
		Action        string `json:"action"`
		Key           string `json:"key"`
		FoundAndReset bool   `json:"foundAndReset"`
		Cells         int    `json:"cells"`
		Message       string `json:"message"`
	}{"reset_key", req.Key, n > 0, n, message})
}

func (a *Admin) resetAll(w http.ResponseWriter, r *http.Request, who string) {
	n, err := a.opts.ResetAll(r.Context())
	a.audit(r, who, "reset all", err, "cells", n)
	if err != nil {
		problem(w, http.StatusServiceUnavailable, "The store did not do it.", "Nothing or only a part was reset; ask again. The log has the cause.")
		return
	}
	answer(w, http.StatusOK, struct {
		Action  string `json:"action"`
		Success bool   `json:"success"`
		Cells   int    `json:"cells"`
		Message string `json:"message"`
	}{"clear_all", true, n, fmt.Sprintf("Reset %d limits of all identities.", n)})
}

// readReset takes key and scope from a JSON body if there is one, else from the query.
// A key in the query ends in the access logs on the way; the body is there to avoid it.
func readReset(w http.ResponseWriter, r *http.Request) (resetRequest, error) {
	q := r.URL.Query()
	req := resetRequest{Key: q.Get("key"), Scope: q.Get("scope")}
	if mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); mediaType == "application/json" {
		dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&req); err != nil && !errors.Is(err, io.EOF) {
			return req, fmt.Errorf("the JSON body has other than key and scope: %w", err)
		}
	}
	switch {
	case req.Scope != "" && req.Scope != "all":
		return req, errors.New(`scope may only be "all"`)
	case req.Scope == "all" && req.Key != "":
		return req, errors.New("give key, or scope=all, not both")
	case req.Scope == "" && req.Key == "":
		return req, errors.New("give key, such as ip:203.0.113.9, or scope=all for everybody")
	case len(req.Key) > keyMax || !utf8.ValidString(req.Key):
		return req, fmt.Errorf("key must be UTF-8 and at most %d bytes", keyMax)
	}
	return req, nil
}

func (a *Admin) postReload(w http.ResponseWriter, r *http.Request, who string) {
	if a.opts.Reload == nil {
		problem(w, http.StatusNotImplemented, "There is no configuration file to load.", "")
		return
	}
	err := a.opts.Reload(r.Context())
	a.audit(r, who, "reload", err)
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, "The configuration was not loaded; the one before stays in force.", err.Error())
		return
	}
	answer(w, http.StatusOK, struct {
		Action  string `json:"action"`
		Success bool   `json:"success"`
		Hash    string `json:"hash"`
	}{"reload", true, a.load.Load().hash})
}

// audit writes what was changed, by whom, from where and with what result.
func (a *Admin) audit(r *http.Request, who, action string, err error, more ...any) {
	args := append([]any{"action", action, "who", who, "peer", peerOf(r).String()}, more...)
	if err != nil {
		a.opts.Audit.Error("admin: a change failed", append(args, "error", err)...)
		return
	}
	a.opts.Audit.Info("admin: a change was made", args...)
}

// health is the body of the health endpoints: a word for machines, nothing to learn.
type health struct {
	Status string `json:"status"`
	// Degraded is true while the store does not answer and rules decide by onStoreError.
	// The process serves, and no restart would help.
	Degraded bool `json:"degraded,omitempty"`
}

func (a *Admin) getLiveness(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, health{Status: "UP"})
}

func (a *Admin) getReadiness(w http.ResponseWriter, _ *http.Request) {
	switch {
	case a.opts.Draining():
		answer(w, http.StatusServiceUnavailable, health{Status: "OUT_OF_SERVICE"})
	case a.opts.Ready() != nil:
		answer(w, http.StatusServiceUnavailable, health{Status: "DOWN"})
	default:
		answer(w, http.StatusOK, health{Status: "UP", Degraded: a.opts.Stats().Degraded})
	}
}

func (a *Admin) getInfo(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, struct {
		Name      string    `json:"name"`
		Version   string    `json:"version"`
		GoVersion string    `json:"goVersion"`
		Started   time.Time `json:"started"`
		Uptime    float64   `json:"uptimeSeconds"`
		Config    string    `json:"configHash"`
	}{"sluice", a.opts.Version, runtime.Version(), a.started.UTC(), math.Round(time.Since(a.started).Seconds()), a.load.Load().hash})
}
