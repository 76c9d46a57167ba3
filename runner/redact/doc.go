// Package redact keeps the values of secrets out of a stream of bytes.
//
// It owns the search for values across the borders of reads, and what stands in their place. It never knows a secret's
// name, never stores a value anywhere and never looks for other spellings of one than those it is given: a value that a
// program writes in base64 is not found. Light imports only: the shim is built on it.
package redact
