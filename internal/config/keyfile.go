package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/berthq/berth/job"
)

// entry is one KEY=VALUE and where it stands.
type entry struct {
	value string
	where string // "file:line"
}

// readKeyFile reads a file of KEY=VALUE lines; only known keys may be in it.
func readKeyFile(path string, known []string) (map[string]entry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config file: %w", err)
	}
	return parseKeyFile(string(data), path, known)
}

// parseKeyFile understands what systemd does: comments with # or ;, blank lines, values bare or in quotes.
func parseKeyFile(text, path string, known []string) (map[string]entry, error) {
	entries := map[string]entry{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		where := fmt.Sprintf("%s:%d", path, i+1)
		key, value, ok := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		if !ok {
			return nil, fmt.Errorf("%s:1: want KEY=VALUE, not %q", where, clip(line))
		}
		if err := checkKey(key, known); err != nil {
			return nil, fmt.Errorf("%s:1: %w", where, err)
		}
		if first, twice := entries[key]; twice {
			return nil, fmt.Errorf("%s:1: %s is set in %s already", where, key, first.where)
		}
		value, err := unquote(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", where, strings.Index(line, "=")+2, key, err)
		}
		entries[key] = entry{value, where}
	}
	return entries, nil
}

// checkKey refuses a key nobody reads.
func checkKey(key string, known []string) error {
	if slices.Contains(known, key) {
		return nil
	}
	if near, ok := job.Nearest(key, known); ok {
		return fmt.Errorf("unknown setting %s (did you mean %s?)", clip(key), near)
	}
	return fmt.Errorf("unknown setting %s", clip(key))
}

// unquote takes the quotes off a value. In double quotes a backslash keeps the character after it.
func unquote(s string) (string, error) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		return s, nil
	}
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == quote:
			if i != len(s)-1 {
				return "", fmt.Errorf("there is text after the closing quote")
			}
			return b.String(), nil
		case s[i] == '\\' && quote == '"' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", fmt.Errorf("the closing quote is missing")
}

// quoteValue writes a value so that unquote, systemd and a shell read it back.
func quoteValue(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,@%+=") == "" {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(s) + `"`
}

// clip bounds user text inside an error.
func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
