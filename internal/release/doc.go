// Package release owns what a release holds beside the programs: man pages, completions of the shells, and the units of
// systemd, all made from the commands themselves. It never builds or packs; make release does (deploy/release.sh).
//
//	commands -> Write(folder): man/man1, completions, systemd; the same bytes each time
package release
