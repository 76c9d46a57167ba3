package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli/exit"
)

// Reserved are the names of a command that a later version will have: not in its help, refused by name, never
// guessed to mean something else.
type Reserved struct {
	Verbs []string
	Flags []string // long names
	Short string   // one-letter flags
}

// annotation under which a command remembers its reserved names.
const (
	reservedVerbs = "berth-reserved-verbs"
	reservedFlags = "berth-reserved-flags"
)

// Reserve notes a command's reserved names.
func Reserve(cmd *cobra.Command, r Reserved) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[reservedVerbs] = strings.Join(r.Verbs, " ")
	cmd.Annotations[reservedFlags] = strings.Join(append(slices.Clone(r.Flags), strings.Split(r.Short, "")...), " ")
}

func isReserved(cmd *cobra.Command, kind, name string) bool {
	return slices.Contains(strings.Fields(cmd.Annotations[kind]), name)
}

// notYet is the sentence for a reserved name.
func notYet(cmd *cobra.Command, name string) error {
	return exit.Errorf(exit.Usage, "%s %s is not in this version yet", cmd.CommandPath(), name)
}
