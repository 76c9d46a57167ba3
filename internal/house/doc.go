// Package house holds the tests of the house itself: who may import whom, what the commands link, and that nothing is
// left half done. It has no code of its own; docs/words.md and the tests are what it owns.
package house
