// Package examples holds job specs that people can start from. `make demo` runs them, and a test does.
package examples

import "embed"

// Specs are the files of this folder, hello.yaml and the others.
//
//go:embed *.yaml
var Specs embed.FS
