package job

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// ScriptWord is the word of a command that stands for the file with the job's script.
const ScriptWord = "Script"

// ScriptPath is that word as it is written.
const ScriptPath = "{{." + ScriptWord + "}}"

// checkScript: the text travels as it is or not at all, and something must run it.
func (s Spec) checkScript(ps *problems) {
	if s.Script == "" {
		return
	}
	switch {
	case s.IsLease():
		ps.add("script", "is for a command, and a lease runs none")
	case len(s.Script) > MaxSpecBytes:
		ps.add("script", "is %d KiB, the limit for a whole spec is %d KiB: keep it in a file and name that in the command", (len(s.Script)+1023)>>10, MaxSpecBytes>>10)
	case !utf8.ValidString(s.Script):
		ps.add("script", "is not UTF-8 text: keep it in a file and name that in the command")
	case strings.ContainsRune(s.Script, 0):
		ps.add("script", "holds a NUL byte: a program is no script, name it in the command")
	case !s.namesScript():
		ps.add("script", "is not run by anything: put %s where its path goes, for example command: [bash, %q]", ScriptPath, ScriptPath)
	}
}

func (s Spec) namesScript() bool {
	for _, command := range s.commands() {
		if slices.Contains(command.words(), ScriptWord) {
			return true
		}
	}
	return false
}
