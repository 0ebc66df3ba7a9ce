package mcp

import (
	"encoding/json"

	"github.com/sluicegate/sluice/mcp/jsonrpc"
)

// A provider of 2025-11-25 may send the user to a page, and tells later, by the id that it
// gave, that what was to be done there is done. That may be long after the call, and is no
// business of other clients (client/elicitation, "URL Mode Elicitation").

// urlRequired is the code of an error that names pages to visit first.
const urlRequired = -32042

// maxElsewhere bounds the pages that one client is known to have been sent to.
const maxElsewhere = 100

// sentTo notes the page that an elicitation names, if it names one. The caller holds s.mu.
func (s *Session) sentTo(elicitation json.RawMessage) {
	raw, _ := jsonrpc.Lookup(elicitation, "elicitationId")
	var id string
	if json.Unmarshal(raw, &id) != nil || len(s.elsewhere) >= maxElsewhere {
		return
	}
	if s.elsewhere == nil {
		s.elsewhere = map[string]bool{}
	}
	s.elsewhere[id] = true
}

// mustVisit notes the pages that an error names.
func (s *Session) mustVisit(e *jsonrpc.Error) {
	if e.Code != urlRequired {
		return
	}
	raw, _ := jsonrpc.Lookup(e.Data, "elicitations")
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, elicitation := range list {
		s.sentTo(elicitation)
	}
}

// elicited is a provider's word that the user has been where it had sent him.
func (k *conn) elicited(m *jsonrpc.Message) {
	raw, _ := m.Param("elicitationId")
	var id string
	if json.Unmarshal(raw, &id) != nil {
		return
	}
	k.slot.b.sessions.eachAll(func(s *Session) {
		s.mu.Lock()
		sent := (s.slot == k.slot || s.slot.all) && s.elsewhere[id]
		if sent {
			delete(s.elsewhere, id)
		}
		s.mu.Unlock()
		if sent {
			s.push(m)
		}
	})
}
