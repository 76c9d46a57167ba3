package model

// Config is a decoded config.json.
type Config = map[string]any

// Known is the built-in table's config for a model's name.
func Known(string) (Config, bool) { return nil, false }
