package config

import (
	"fmt"
	"os"
	"path/filepath"
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

// KeyFileText is a file of KEY=VALUE lines that this package and systemd read back, with the settings that somebody
// made: flags, environment and the file before. The defaults of a later version shall count.
func KeyFileText(comment string, worker Settings, to Client) (string, error) {
	var b strings.Builder
	b.WriteString("# " + comment + "\n")
	lines := [][2]string{{"SERVER", to.Server}, {"CREDS", to.Creds}, {"TOKEN", to.Token}}
	for i := range lines {
		lines[i][0] = ClientPrefix + lines[i][0]
	}
	for _, s := range worker {
		if s.Layer != LayerDefault {
			lines = append(lines, [2]string{s.Key, s.Value})
		}
	}
	for _, kv := range lines {
		if strings.ContainsAny(kv[1], "\n\r\x00") {
			return "", fmt.Errorf("the value of %s has a line break, which no such file can hold", kv[0])
		}
		if kv[1] != "" {
			fmt.Fprintf(&b, "%s=%s\n", kv[0], quoteValue(kv[1]))
		}
	}
	return b.String(), nil
}

// Absolute makes the named settings, which are paths, independent of the folder they were given in.
func (s Settings) Absolute(dir string, names ...string) {
	for i := range s {
		if slices.Contains(names, s[i].Name) && s[i].Value != "" && !filepath.IsAbs(s[i].Value) {
			s[i].Value = filepath.Join(dir, s[i].Value)
		}
	}
}

// Folder is where Berth's files of settings are: the machine's, or the user's; "" where the user has no home.
func Folder(environ []string, system bool) string {
	if system {
		return systemConfigDir
	}
	return userConfigDir(environMap(environ))
}
