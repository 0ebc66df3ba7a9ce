package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"

	"github.com/sluicegate/sluice/config"
)

// levels are the names of observability.logLevel.
var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func newLogger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// A serverLog takes the lines of [http.Server]. A panic is a mistake of ours; the rest is
// what strangers do to a port.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.HasPrefix(line, []byte("http: panic")) {
		level = slog.LevelError
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(line)))
	return len(line), nil
}

// warn logs what looks wrong with a configuration.
func (p *program) warn(warnings config.Problems) {
	for _, w := range warnings {
		p.log.Warn(w.Message, "at", w.Pos.String(), "key", w.Key, "code", string(w.Code))
	}
}
