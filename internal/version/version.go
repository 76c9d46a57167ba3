// Package version says which Berth this is.
package version

// Version is set by the build.
var Version = "dev"
