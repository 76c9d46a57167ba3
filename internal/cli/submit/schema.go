package submit

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/job"
)

func newSchema(g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "print the JSON Schema of a job spec",
		Long: "Print the JSON Schema of a job spec, for editors that complete and check YAML as it is written. It is made from\n" +
			"the type that the parser fills; submit validate says more.",
		Example: "  submit schema > berth.schema.json\n" +
			"  # and at the head of a spec: # yaml-language-server: $schema=berth.schema.json",
		Args: cli.Takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			out := json.NewEncoder(g.Out())
			out.SetEscapeHTML(false)
			out.SetIndent("", "  ")
			return out.Encode(job.SpecSchema())
		},
	}
}
