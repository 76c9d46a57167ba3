// Package consume holds the programs that show how to read results from Berth: go/, python/, js/ and the commands for
// the nats command line in README.md. All do the same, so that one can be read beside the other, and a test runs them
// against a real broker and compares what they print.
//
// There is nothing to import here.
package consume
