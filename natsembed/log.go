package natsembed

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// logAdapter hands the server's messages to slog and keeps the one that made it give up.
type logAdapter struct {
	log *slog.Logger

	mu    sync.Mutex
	fatal error
}

func newLogAdapter(log *slog.Logger) *logAdapter {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &logAdapter{log: log.With("part", "broker")}
}

func (a *logAdapter) at(level slog.Level, format string, args []any) {
	ctx := context.Background()
	if a.log.Enabled(ctx, level) {
		a.log.Log(ctx, level, fmt.Sprintf(format, args...))
	}
}

// Noticef is debug here: the server greets with twenty lines.
func (a *logAdapter) Noticef(format string, args ...any) { a.at(slog.LevelDebug, format, args) }
func (a *logAdapter) Debugf(format string, args ...any)  { a.at(slog.LevelDebug, format, args) }
func (a *logAdapter) Tracef(format string, args ...any)  { a.at(slog.LevelDebug, format, args) }
func (a *logAdapter) Warnf(format string, args ...any)   { a.at(slog.LevelWarn, format, args) }
func (a *logAdapter) Errorf(format string, args ...any)  { a.at(slog.LevelError, format, args) }

// Fatalf is kept, not logged: Start returns it. NATS's own logger would end the process here.
func (a *logAdapter) Fatalf(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fatal == nil {
		a.fatal = fmt.Errorf(format, args...)
	}
}

func (a *logAdapter) startError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fatal
}
