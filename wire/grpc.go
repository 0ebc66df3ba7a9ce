package wire

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
)

// Status codes of gRPC.
const (
	grpcInvalidArgument   = 3
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcUnavailable       = 14
)

// isGRPC reports whether a request is gRPC, or gRPC for browsers.
func isGRPC(r *http.Request) bool {
	t := r.Header["Content-Type"]
	return len(t) == 1 && strings.HasPrefix(t[0], "application/grpc")
}

// refuseGRPC answers with trailers only: HTTP 200 and a status in the headers. A bare 429
// would reach the application as UNAVAILABLE, which clients retry at once.
func (w *Writer) refuseGRPC(rw http.ResponseWriter, r *http.Request, ref *sluice.Refusal) {
	wait := waitOf(ref)
	h := rw.Header()
	w.head(h, r, ref, wait)
	h["Content-Type"] = r.Header["Content-Type"]
	code := grpcCode(w.Status(ref))
	message := appendReason(make([]byte, 0, 160), ref, wait)
	h["Grpc-Status"] = []string{strconv.Itoa(code)}
	h["Grpc-Message"] = []string{string(appendPercent(nil, message))}
	h["Grpc-Retry-Pushback-Ms"] = []string{pushback(wait)}
	h["Grpc-Status-Details-Bin"] = []string{base64.RawStdEncoding.EncodeToString(appendStatus(nil, code, message, wait))}
	rw.WriteHeader(http.StatusOK)
}

func grpcCode(status int) int {
	switch status {
	case http.StatusServiceUnavailable:
		return grpcUnavailable
	case http.StatusForbidden, http.StatusUnauthorized:
		return grpcPermissionDenied
	case http.StatusBadRequest:
		return grpcInvalidArgument
	}
	return grpcResourceExhausted
}

// pushback returns how long a client must wait before it retries (gRFC A6): a signed
// 32-bit number of milliseconds, of which a negative one forbids to retry.
func pushback(wait time.Duration) string {
	if wait <= 0 {
		return "-1"
	}
	return strconv.FormatInt(min(ceil(wait, time.Millisecond), math.MaxInt32), 10)
}

// appendPercent appends a message as gRPC encodes it: printable ASCII but "%" as it is.
func appendPercent(b, message []byte) []byte {
	const hex = "0123456789ABCDEF"
	for _, c := range message {
		if c >= ' ' && c <= '~' && c != '%' {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return b
}

// The four messages below are the whole of what gRPC refusals need of protocol buffers,
// so they are written by hand rather than with a code generator's output behind them:
//
//	google.rpc.Status    {int32 code = 1; string message = 2; repeated Any details = 3}
//	google.protobuf.Any  {string type_url = 1; bytes value = 2}
//	google.rpc.RetryInfo {google.protobuf.Duration retry_delay = 1}
//	google.protobuf.Duration {int64 seconds = 1; int32 nanos = 2}
const retryInfoType = "type.googleapis.com/google.rpc.RetryInfo"

// appendStatus appends a google.rpc.Status, with RetryInfo if there is a wait. Exporters
// of telemetry retry RESOURCE_EXHAUSTED only with it.
func appendStatus(b []byte, code int, message []byte, wait time.Duration) []byte {
	b = appendVarint(b, 1, uint64(code))
	b = appendBytes(b, 2, message)
	if wait <= 0 {
		return b
	}
	duration := appendVarint(nil, 1, uint64(wait/time.Second))
	if nanos := uint64(wait % time.Second); nanos > 0 {
		duration = appendVarint(duration, 2, nanos)
	}
	retry := appendBytes(nil, 1, duration)
	detail := appendBytes(nil, 1, []byte(retryInfoType))
	return appendBytes(b, 3, appendBytes(detail, 2, retry))
}

// appendVarint appends a field of wire type 0.
func appendVarint(b []byte, field byte, n uint64) []byte {
	return binary.AppendUvarint(append(b, field<<3), n)
}

// appendBytes appends a field of wire type 2.
func appendBytes(b []byte, field byte, value []byte) []byte {
	b = binary.AppendUvarint(append(b, field<<3|2), uint64(len(value)))
	return append(b, value...)
}
