package gate

import (
	"bytes"
	"context"
	"log"
	"log/slog"
)

// ErrorLog returns what [http.Server.ErrorLog] of a server on a public port should be. A
// panic of a handler is an error, what the server has trouble with itself a warning, and
// what strangers do to a port, such as breaking off a handshake, is only for debugging.
func ErrorLog(l *slog.Logger) *log.Logger { return log.New(serverLog{l}, "", 0) }

// A serverLog takes the lines of an [http.Server].
type serverLog struct{ log *slog.Logger }

// Write is of [io.Writer]. It is called for each line.
func (l serverLog) Write(line []byte) (int, error) {
	level := slog.LevelWarn
	switch {
	case bytes.Contains(line, []byte("panic serving")):
		level = slog.LevelError
	case bytes.HasPrefix(line, []byte("http: TLS handshake")), bytes.HasPrefix(line, []byte("http2:")):
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(line)))
	return len(line), nil
}
