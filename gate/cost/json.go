package cost

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// object reads a JSON object one level deep. A name that stands in it twice is an
// error: one reader takes the first value, another the last, and who counts must not
// be fooled about what the server will see. For the same reason names are compared
// exactly, as decoding into a struct would not.
func object(raw []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, ErrMalformed
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, ErrMalformed
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, ErrMalformed
		}
		key, _ := name.(string)
		if _, twice := fields[key]; twice {
			return nil, ErrMalformed
		}
		fields[key] = v
	}
	if _, err := d.Token(); err != nil || d.More() {
		return nil, ErrMalformed
	}
	return fields, nil
}

// elements reads a JSON array one level deep.
func elements(raw []byte) ([]json.RawMessage, error) {
	var list []json.RawMessage
	if !isArray(raw) || json.Unmarshal(raw, &list) != nil {
		return nil, ErrMalformed
	}
	return list, nil
}

func isArray(raw []byte) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '['
}

// text returns a JSON string's value, or "" for any other value.
func text(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// follow returns the value a JSON pointer (RFC 6901) leads to; nil if there is none.
func follow(raw []byte, pointer string) (json.RawMessage, error) {
	at := json.RawMessage(raw)
	if pointer == "" {
		return at, nil
	}
	for step := range strings.SplitSeq(pointer[1:], "/") {
		if len(at) == 0 {
			return nil, nil
		}
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		if isArray(at) {
			list, err := elements(at)
			i, bad := strconv.Atoi(step)
			if err != nil || bad != nil || i < 0 || i >= len(list) {
				return nil, err
			}
			at = list[i]
			continue
		}
		if at[0] != '{' && !bytes.HasPrefix(bytes.TrimLeft(at, " \t\r\n"), []byte{'{'}) {
			return nil, validity(at)
		}
		fields, err := object(at)
		if err != nil {
			return nil, err
		}
		at = fields[step]
	}
	return at, nil
}

// validity tells a plain value, which leads nowhere, from no value at all.
func validity(raw []byte) error {
	if json.Valid(raw) {
		return nil
	}
	return ErrMalformed
}

func parseMessage(raw []byte) (message, error) {
	fields, err := object(raw)
	if err != nil {
		return message{}, err
	}
	method, call := fields["method"]
	m := message{method: text(method), params: fields["params"], call: call}
	if call && m.method == "" {
		return message{}, ErrMalformed
	}
	return m, nil
}
