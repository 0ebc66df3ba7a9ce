package link

import (
	"net/http"
	"strings"
)

// unfit are the fields that a configuration cannot set: those of the connection (RFC 9110,
// 7.6.1) and of the body. Idempotency-Key would let net/http send a request twice.
var unfit = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Proxy-Authorization": true, "Proxy-Authenticate": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Host": true, "Expect": true,
	"Content-Length": true, "Content-Encoding": true, "Content-Type": true, "Accept": true, "Accept-Encoding": true,
	"Idempotency-Key": true, "X-Idempotency-Key": true, "Last-Event-Id": true,
}

// Credentials returns a copy of configured header fields, with canonical names and without
// those that belong to the connection, to the body, or to a protocol (Mcp-, Sec-). It always
// names the broker as User-Agent unless that is configured.
func Credentials(given http.Header) http.Header {
	h := http.Header{"User-Agent": {"sluice"}}
	for name, values := range given {
		name = http.CanonicalHeaderKey(name)
		if !unfit[name] && !strings.HasPrefix(name, "Mcp-") && !strings.HasPrefix(name, "Sec-") {
			h[name] = append([]string(nil), values...)
		}
	}
	return h
}
