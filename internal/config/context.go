package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// natsContext is what Berth reads of a context of the nats command.
type natsContext struct {
	URL      string `json:"url"`
	Token    string `json:"token"`
	Creds    string `json:"creds"`
	User     string `json:"user"`
	Password string `json:"password"`
	NKey     string `json:"nkey"`
	Cert     string `json:"cert"`
	CA       string `json:"ca"`
}

// fillFromContext takes what no stronger word says from the NATS context, if one is named. It counts as the layer
// that named it.
func fillFromContext(settings Settings, environ map[string]string) (Settings, error) {
	named, _ := settings.Get("context")
	if named.Value == "" {
		return settings, nil
	}
	path, err := contextPath(named.Value, environ)
	if err != nil {
		return nil, named.wrap(err)
	}
	c, err := readContext(path)
	if err != nil {
		return nil, named.wrap(err)
	}
	take := func(name, value string) {
		if x, _ := settings.Get(name); value != "" && x.rank() < named.rank() {
			settings.set(name, Setting{Value: value, Layer: named.Layer, Where: path})
		}
	}
	take("server", c.URL)
	if server, _ := settings.Get("server"); server.Value == c.URL {
		take("creds", c.Creds)
		take("token", c.Token)
	}
	return settings, nil
}

// contextPath is where the nats command keeps a context.
func contextPath(name string, environ map[string]string) (string, error) {
	if strings.ContainsAny(name, "/\\\x00") || name == ".." {
		return "", fmt.Errorf("%q is not the name of a NATS context", clip(name))
	}
	dir := environ["XDG_CONFIG_HOME"]
	if !filepath.IsAbs(dir) {
		if !filepath.IsAbs(environ["HOME"]) {
			return "", errors.New("there is no home folder to look for NATS contexts in")
		}
		dir = filepath.Join(environ["HOME"], ".config")
	}
	return filepath.Join(dir, "nats", "context", name+".json"), nil
}

func readContext(path string) (natsContext, error) {
	var c natsContext
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("NATS context: %w (nats context ls shows what there is)", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("NATS context %s: %w", path, err)
	}
	if c.User != "" || c.Password != "" || c.NKey != "" || c.Cert != "" || c.CA != "" {
		return c, fmt.Errorf("NATS context %s: it logs in with a password, an nkey or a certificate of its own, which is not supported yet by this version: use creds or a token", path)
	}
	return c, nil
}
