package container

import "strings"

// startCode tells a missing command from one that cannot be executed: the engine has only a sentence for both.
func startCode(err error) int {
	text := err.Error()
	switch {
	case strings.Contains(text, "no such file or directory") || strings.Contains(text, "executable file not found"):
		return codeNotFound
	case strings.Contains(text, "permission denied") || strings.Contains(text, "exec format error"):
		return codeNotExec
	}
	return CodeEngine
}
