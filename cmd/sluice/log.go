package main

import (
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

// warn logs what looks wrong with a configuration.
func (p *program) warn(warnings config.Problems) {
	for _, w := range warnings {
		p.log.Warn(w.Message, "at", w.Pos.String(), "key", w.Key, "code", string(w.Code))
	}
}
