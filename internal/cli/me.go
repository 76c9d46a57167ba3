package cli

import (
	"strings"

	"github.com/berthq/berth/queue"
)

// defaultProject is where jobs go that name none.
const defaultProject = "default"

// Me is who types: the account, and the project BERTH_PROJECT names. Without credentials it is a claim.
func Me(env Env) queue.Me {
	project := env.Getenv("BERTH_PROJECT")
	if project == "" {
		project = defaultProject
	}
	return queue.Me{Project: project, User: userToken(env.User)}
}

// userToken is the account's name as a subject token: ada.lovelace@LAB becomes ada-lovelace-lab.
func userToken(name string) string {
	token := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	token = token[:min(len(token), 32)]
	if token == "" {
		return "unknown"
	}
	return token
}
