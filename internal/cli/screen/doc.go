// Package screen owns how Berth speaks to a terminal: its facts (is it one, how wide, colours or not), and the small
// forms people read: relative times, sizes, bars, sparklines, and text of others made safe to show.
//
// It never decides what is said, and never writes where no terminal was asked for: everything but [Inspect] is pure.
package screen
