// Package logs sets up the one logger of a command: coloured lines for a person at a terminal, JSON for everything
// else.
//
// It owns the form and the names of the keys that occur everywhere. It never touches slog's default logger and reads no
// environment: the logger is handed on, and the caller says what the terminal can do. Logs go to stderr; stdout is data.
package logs
