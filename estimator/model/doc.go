// Package model reads a model's config.json: its architecture, how many parameters it has and in which tensors, and
// what a token costs in the KV cache.
//
// It owns what each architecture is built of. It knows no model by name: the built-in table is data (configs only),
// every figure is computed from config fields.
package model
