package upstream

import (
	"bytes"
	"encoding/json"
	"strings"
)

// maxBody is how much of a body is looked at.
const maxBody = 64 << 10

// A report is what an error body says, whatever provider wrote it.
type report struct {
	isError bool
	status  int    // by its code, 0 if that is no number
	code    string // insufficient_quota, rate_limit_error, RESOURCE_EXHAUSTED, ...
	kind    string // the error's type
	text    string
	details []detail
	inner   string // a code in the details
}

// A detail is one of google.rpc.Status.
type detail struct {
	Type       string `json:"@type"`
	RetryDelay string `json:"retryDelay"`
	Reason     string `json:"reason"`
	Violations []struct {
		QuotaID string `json:"quotaId"`
	} `json:"violations"`
	Metadata struct {
		QuotaResetDelay string `json:"quotaResetDelay"`
	} `json:"metadata"`
}

// fields are those of an error in any dialect, at the top or below "error" or "response".
type fields struct {
	Error    json.RawMessage `json:"error"`
	Response json.RawMessage `json:"response"`
	Object   string          `json:"object"`
	Type     string          `json:"type"`
	Awry     string          `json:"__type"`
	Code     json.RawMessage `json:"code"`
	Status   string          `json:"status"`
	Message  string          `json:"message"`
	Details  json.RawMessage `json:"details"`
}

// readReport reads an error body. Gemini's streams are an array of one.
func readReport(body []byte) report {
	body = bytes.TrimSpace(body[:min(len(body), maxBody)])
	if rest, ok := bytes.CutPrefix(body, []byte("[")); ok {
		body = bytes.TrimSpace(bytes.TrimSuffix(rest, []byte("]")))
	}
	var r report
	r.read(body, 0)
	return r
}

// read takes in one object; errors stand at most two levels deep.
func (r *report) read(raw json.RawMessage, depth int) {
	var f fields
	if json.Unmarshal(raw, &f) != nil && f.Error == nil && f.Message == "" {
		return
	}
	if depth > 0 || f.Object == "error" || f.Type == "error" || f.Error == nil && f.Message != "" {
		r.take(&f, depth)
	}
	if depth > 2 {
		return
	}
	switch {
	case len(f.Response) > 0 && f.Response[0] == '{': // a failed response of OpenAI's stream
		var in fields
		if json.Unmarshal(f.Response, &in) == nil && isObject(in.Error) {
			r.read(in.Error, depth+1)
		}
	case isObject(f.Error):
		r.isError = true
		r.read(f.Error, depth+1)
	case len(f.Error) > 0 && f.Error[0] == '"': // Ollama
		r.isError = true
		_ = json.Unmarshal(f.Error, &r.text) // a JSON string, by its first letter
	}
}

func (r *report) take(f *fields, depth int) {
	r.isError = r.isError || depth > 0 || f.Object == "error" || f.Type == "error" || f.Awry != ""
	if f.Message != "" {
		r.text = f.Message
	}
	if f.Type != "error" && f.Type != "" {
		r.kind = f.Type
	}
	if _, name, ok := strings.Cut(f.Awry, "#"); ok || f.Awry != "" {
		r.kind = name
		if !ok {
			r.kind = f.Awry
		}
	}
	var word string
	if json.Unmarshal(f.Code, &word) == nil {
		r.code = word
	}
	var n int
	if json.Unmarshal([]byte(strings.Trim(string(f.Code), `"`)), &n) == nil && n >= 400 && n < 600 {
		r.status, r.code = n, ""
	}
	if f.Status != "" && r.code == "" {
		r.code = f.Status
	}
	r.takeDetails(f.Details)
}

// takeDetails reads google.rpc's list of details, or Anthropic's object with a code.
func (r *report) takeDetails(raw json.RawMessage) {
	if isObject(raw) {
		var d struct {
			Code string `json:"error_code"`
		}
		if json.Unmarshal(raw, &d) == nil {
			r.inner = d.Code
		}
		return
	}
	var list []detail
	if json.Unmarshal(raw, &list) == nil {
		r.details = list[:min(len(list), maxStandings)]
	}
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// word is the upstream's own name for the error, fit for a log.
func (r *report) word() string {
	for _, w := range []string{r.inner, r.code, r.kind} {
		if w != "" && len(w) <= 64 && strings.IndexFunc(w, func(c rune) bool {
			return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-')
		}) < 0 {
			return w
		}
	}
	return ""
}

// names reports whether code or type is one of words.
func (r *report) names(words ...string) bool {
	for _, w := range words {
		if strings.EqualFold(r.code, w) || strings.EqualFold(r.kind, w) || strings.EqualFold(r.inner, w) {
			return true
		}
	}
	return false
}

// says reports whether the text has one of phrases, which are in lower case.
func (r *report) says(phrases ...string) bool {
	text := strings.ToLower(r.text)
	for _, p := range phrases {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}
