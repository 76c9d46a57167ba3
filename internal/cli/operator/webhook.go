package operator

import (
	"bytes"
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/worker"
	"github.com/berthq/berth/internal/webhook"
	"github.com/berthq/berth/queue"
)

func newWebhook(g *cli.Globals) *cobra.Command {
	var o queue.DeliverOptions
	var secretFile string
	cmd := &cobra.Command{
		Use:   "webhook URL",
		Short: "post each result to an address, signed",
		Long: "Post each result, from now on, to an address, until it is ended. One that is refused is tried again, later each time,\n" +
			"for three days; those behind it wait. The broker remembers the place under --name, so started again it goes on.",
		Example: "  openssl rand -hex 32 > hook.secret; chmod 600 hook.secret\n" +
			"  berth webhook https://example.org/berth --secret-file hook.secret --name chat",
		Args: cli.Takes(1, 1, "the address to post to"),
	}
	f := cmd.Flags()
	f.StringVar(&secretFile, "secret-file", "", "`FILE` with the secret that signs each request")
	f.StringVar(&o.Name, "name", "webhook", "under which the broker remembers how far it came; another `NAME`, another receiver")
	f.StringVarP(&o.Project, "project", "p", "", "only this project")
	f.SortFlags = false
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if secretFile == "" {
			return exit.Errorf(exit.Usage, "a webhook needs --secret-file: without a signature anybody could say that a job is done")
		}
		secret, err := os.ReadFile(secretFile)
		if err != nil {
			return exit.Errorf(exit.Usage, "--secret-file: %w", err)
		}
		s, err := webhook.New(args[0], bytes.TrimSpace(secret), g.Env().Now)
		if err != nil {
			return exit.With(exit.Usage, err)
		}
		defer s.Close()
		return ask(g, cmd, func(ctx context.Context, q *queue.Queue) error {
			log := worker.Logger(g)
			o.Ready = func() { log.Info("webhook", "name", o.Name) }
			return q.DeliverResults(ctx, o, func(ctx context.Context, d queue.Delivered) error {
				if err := s.Send(ctx, d.ID, d.Try, d.Data); err != nil {
					log.Warn("not_delivered", "id", d.ID, "try", d.Try, "err", err)
					return err
				}
				return nil
			})
		})
	}
	return cmd
}
