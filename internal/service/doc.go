// Package service owns what Berth tells systemd: the text of its units, where they belong, and how they get there and
// away again without losing what somebody wrote.
//
// It never starts anything and knows no setting of a worker: those stand in the environment file that a unit names.
//
//	Unit.Text() + settings -> []File -> Write: new | same | changed (the old one kept beside it)
package service
