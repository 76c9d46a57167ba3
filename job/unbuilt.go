package job

import "slices"

// unbuilt lists the fields of a spec that are named in the documentation and not carried out by this version. They are
// refused, never ignored: a job must not run without what it asks for. Building one means to take its line away.
var unbuilt = []string{
	"preemptible",
	"idle",
	"notify",
}

func isUnbuilt(path string) bool { return slices.Contains(unbuilt, path) }

func unbuiltMessage(path string) string { return "`" + path + "` is not supported yet by this version" }
