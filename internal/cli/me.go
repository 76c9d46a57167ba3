package cli

import (
	"github.com/berthq/berth/job"
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
	return queue.Me{Project: project, User: job.TokenOf(env.User)}
}
