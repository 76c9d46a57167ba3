package model

import (
	_ "embed"
	"encoding/json"
	"strings"
	"sync"
)

// known.json holds configs of public models by name: facts, no figures.
//
//go:embed known.json
var knownJSON []byte

var knownConfigs = sync.OnceValue(func() map[string]Config {
	var table struct {
		Models map[string]Config `json:"models"`
	}
	if err := json.Unmarshal(knownJSON, &table); err != nil {
		panic("estimator/model: the embedded known.json does not parse: " + err.Error())
	}
	byName := make(map[string]Config, 2*len(table.Models))
	for name, c := range table.Models {
		key := strings.ToLower(name)
		byName[key] = c
		if i := strings.LastIndexByte(key, '/'); i >= 0 {
			if _, taken := byName[key[i+1:]]; !taken {
				byName[key[i+1:]] = c
			}
		}
	}
	return byName
})

// Known is the built-in table's config for a model's name, with or without its owner. The config is shared: read only.
func Known(name string) (Config, bool) {
	key := strings.ToLower(strings.TrimSuffix(name, "/"))
	table := knownConfigs()
	if c, ok := table[key]; ok {
		return c, true
	}
	if c, ok := table[key[strings.LastIndexByte(key, '/')+1:]]; ok {
		return c, true
	}
	if plain, _, cut := strings.Cut(key, " "); cut { // "… UNet": a remark on the part meant
		return Known(plain)
	}
	return nil, false
}
