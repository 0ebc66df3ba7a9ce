package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// releaseRequest is the body of POST /actuator/mcp/release.
type releaseRequest struct {
	Slot      string `json:"slot"`
	RequestID string `json:"requestId"`
}

// released is the answer to it, in the words of the tool broker_limits_release.
type released struct {
	Released  bool   `json:"released"`
	Slot      string `json:"slot"`
	RequestID string `json:"requestId"`
	By        string `json:"by"`
	Note      string `json:"note"`
}

// postRelease frees the slots that a call of the MCP broker holds. Whoever asks says by it
// that the call's work has stopped.
func (a *Admin) postRelease(w http.ResponseWriter, r *http.Request, who string) {
	var req releaseRequest
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	dec.DisallowUnknownFields()
	err := dec.Decode(&req)
	switch {
	case a.opts.Release == nil:
		problem(w, http.StatusNotImplemented, "There is no MCP broker.", "")
		return
	case err != nil:
		problem(w, http.StatusBadRequest, "The release is not understood.", fmt.Sprintf("The body is JSON with slot and requestId: %v", err))
		return
	case req.Slot == "" || req.RequestID == "" || len(req.Slot) > keyMax || len(req.RequestID) > keyMax:
		problem(w, http.StatusBadRequest, "The release is not understood.", "Give slot and requestId, as diagnosis shows them.")
		return
	}
	by := "admin:" + who
	found, err := a.opts.Release(r.Context(), req.Slot, req.RequestID, by)
	a.audit(r, who, "release", err, "slot", req.Slot, "request", req.RequestID, "found", found)
	switch {
	case err != nil:
		problem(w, http.StatusServiceUnavailable, "The store did not do it.", "Ask again; to release twice does no harm. The log has the cause.")
	case !found:
		problem(w, http.StatusNotFound, "No call of this slot and id holds anything.", "It may have ended by itself; diagnosis shows what is held.")
	default:
		answer(w, http.StatusOK, released{true, req.Slot, req.RequestID, by, "The call's slots are free. What it took from windows and budgets stays taken."})
	}
}
