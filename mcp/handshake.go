package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
	"github.com/sluicegate/sluice/mcp/link"
	"github.com/sluicegate/sluice/mcp/protocol"
)

// A hello is what a provider has said of itself.
type hello struct {
	version      string
	capabilities json.RawMessage
	info         json.RawMessage
	instructions json.RawMessage
}

// has reports whether the provider has a capability, such as "tools" or
// "resources", "subscribe".
func (h *hello) has(path ...string) bool {
	raw, ok := jsonrpc.Lookup(h.capabilities, path...)
	return ok && string(raw) != "false" && string(raw) != "null"
}

// probeTime bounds the question for the newest revision. Old providers that do not answer
// what they do not know cost as much at each start.
const probeTime = 2 * time.Second

// ourCapabilities are those of the clients behind the broker, which relays such questions;
// a client that lacks one gets none.
var ourCapabilities = json.RawMessage(`{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}`)

// handshake agrees on a revision with the provider. The newest needs no handshake, only
// the question what the provider is.
func (k *conn) handshake(ctx context.Context) error {
	how := k.slot.conf().Protocol
	if how == "legacy" || how != "modern" && k.slot.dumb.Swap(false) {
		return k.initialize(ctx)
	}
	within, cancel := context.WithTimeout(ctx, min(probeTime, k.slot.connectTimeout()/2))
	err := k.discover(within)
	cancel()
	if err == nil || how == "modern" || ctx.Err() != nil {
		return err
	}
	if k.isOver() { // some end when they are asked what they do not know
		k.slot.dumb.Store(true)
		return err
	}
	return k.initialize(ctx)
}

// discover asks a provider of the newest revision what it is. One that does not take the
// revision says which it does, and is asked again.
func (k *conn) discover(ctx context.Context) error {
	k.speak(hello{version: protocol.V20260728})
	m, err := k.askWhatItIs(ctx)
	if version := instead(m); err != nil && version != "" {
		k.speak(hello{version: version})
		m, err = k.askWhatItIs(ctx)
	}
	if err != nil {
		k.speak(hello{})
		return fmt.Errorf("mcp: server/discover: %w", err)
	}
	var r struct {
		SupportedVersions []string        `json:"supportedVersions"`
		Capabilities      json.RawMessage `json:"capabilities"`
		Instructions      json.RawMessage `json:"instructions"`
	}
	if err := json.Unmarshal(m.Result, &r); err != nil || r.Capabilities == nil {
		k.speak(hello{})
		return errors.New("mcp: server/discover was not answered with capabilities")
	}
	version := newestModern(r.SupportedVersions)
	if version == "" {
		k.speak(hello{})
		return errors.New("mcp: the provider supports no revision without sessions that the broker knows")
	}
	info, _ := jsonrpc.Lookup(m.Result, "_meta", protocol.MetaServerInfo)
	k.speak(hello{version: version, capabilities: r.Capabilities, info: info, instructions: r.Instructions})
	return nil
}

func (k *conn) askWhatItIs(ctx context.Context) (*jsonrpc.Message, error) {
	m, err := k.ask(ctx, "server/discover", map[string]any{"_meta": k.ourMeta()})
	if err == nil {
		err = failure(m)
	}
	return m, err
}

// instead is the revision without sessions that a provider offers for the one it has
// refused, empty if that is not what it says.
func instead(m *jsonrpc.Message) string {
	if m == nil {
		return ""
	}
	var e struct {
		Code int64                `json:"code"`
		Data protocol.Unsupported `json:"data"`
	}
	if json.Unmarshal(m.Err, &e) != nil || e.Code != protocol.CodeUnsupportedVersion {
		return ""
	}
	return newestModern(e.Data.Supported)
}

// newestModern is the newest of some revisions that has no sessions and is known here.
func newestModern(versions []string) (newest string) {
	for _, v := range versions {
		if protocol.Known(v) && protocol.EraOf(v) == protocol.Modern && v > newest {
			newest = v
		}
	}
	return newest
}

// initialize opens a session with a provider of an older revision.
func (k *conn) initialize(ctx context.Context) error {
	m, err := k.ask(ctx, "initialize", map[string]any{
		"protocolVersion": protocol.V20251125,
		"capabilities":    ourCapabilities,
		"clientInfo":      k.slot.b.info,
	})
	if err == nil {
		err = failure(m)
	}
	if err != nil {
		return fmt.Errorf("mcp: initialize: %w", err)
	}
	var r struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ServerInfo      json.RawMessage `json:"serverInfo"`
		Instructions    json.RawMessage `json:"instructions"`
	}
	if err := json.Unmarshal(m.Result, &r); err != nil {
		return fmt.Errorf("mcp: initialize was answered with something else: %w", err)
	}
	if !protocol.Known(r.ProtocolVersion) || protocol.EraOf(r.ProtocolVersion) != protocol.Legacy {
		return fmt.Errorf("mcp: the provider speaks protocol revision %.32q, which the broker does not know", r.ProtocolVersion)
	}
	k.speak(hello{version: r.ProtocolVersion, capabilities: r.Capabilities, info: r.ServerInfo, instructions: r.Instructions})
	return k.link.Send(ctx, link.Outgoing{Message: jsonrpc.NewNotification("notifications/initialized", nil), Version: k.hello.version})
}

// ourMeta is what a request of the broker's own says of it, in the revision that has no
// sessions.
func (k *conn) ourMeta() map[string]any {
	if protocol.EraOf(k.hello.version) != protocol.Modern {
		return nil
	}
	return map[string]any{
		protocol.MetaVersion:      k.hello.version,
		protocol.MetaCapabilities: json.RawMessage(`{}`),
		protocol.MetaClientInfo:   k.slot.b.info,
	}
}

func (k *conn) isOver() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.over != nil
}

// failure returns the error that m answers with, if it does.
func failure(m *jsonrpc.Message) error {
	if m.Err == nil {
		return nil
	}
	var e struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(m.Err, &e); err != nil {
		return errors.New("an error that is none")
	}
	return fmt.Errorf("error %d: %.200s", e.Code, e.Message)
}
