package operator

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/table"
	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/internal/version"
)

func newVersion(g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version",
		Example: "  berth version",
		Args:    cli.Takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			if g.Output == table.JSON {
				return table.WriteJSON(g.Out(), programJSON{version.Version})
			}
			if !g.Output.ForPeople() {
				return cli.Print(g, programView, []programJSON{{version.Version}})
			}
			_, err := fmt.Fprintf(g.Out(), "berth %s\n", cli.Version())
			return err
		},
	}
}

// programJSON is which program this is.
type programJSON struct {
	Version string `json:"version"`
}

var programView = table.View[programJSON]{
	Name:    func(p programJSON) string { return p.Version },
	Columns: []table.Column[programJSON]{{Field: "version", Cell: func(p programJSON) table.Cell { return table.Text(p.Version) }}},
}

func newToken(g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "token",
		Short:   "print the broker's token, for other programs",
		Example: "  NATS_TOKEN=$(berth token) my-program",
		Args:    cli.Takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			c, err := client(g)
			if err != nil {
				return err
			}
			if c.Token == "" {
				return exit.Errorf(exit.Failed, "there is no token here").
					Hinted("berth up makes one and writes it to client.env; BERTH_TOKEN and BERTH_CREDS come before it")
			}
			_, err = fmt.Fprintln(g.Out(), c.Token)
			return err
		},
	}
}

func newJoin(g *cli.Globals) *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:     "join",
		Short:   "print the one line that starts a worker on another machine",
		Example: "  berth join\n  berth join --address 10.0.0.7",
		Args:    cli.Takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			c, err := client(g)
			if err != nil {
				return err
			}
			server, err := reachable(c.Server, address, g.Env().Host)
			if err != nil {
				return err
			}
			if c.Creds != "" {
				g.Say("copy %s to that machine first", c.Creds)
			}
			_, err = fmt.Fprintln(g.Out(), joinLine(server, c))
			return err
		},
	}
	cmd.Flags().StringVar(&address, "address", "", "how the other machine reaches this one: a `HOST` or an IP address")
	return cmd
}

func client(g *cli.Globals) (config.Client, error) {
	to, _, err := g.Client()
	return config.Client{Server: to.URL, Token: to.Token, Creds: to.Creds}, err
}

// reachable is the server's address as another machine must write it. A broker that listens to this machine alone
// cannot be joined.
func reachable(server, address, host string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(strings.Split(server, ",")[0]))
	if err != nil {
		return "", exit.Errorf(exit.Usage, "the server's address %q: %w", server, err)
	}
	port := u.Port()
	if port == "" {
		port = "4222"
	}
	switch ip := net.ParseIP(u.Hostname()); {
	case address != "":
		u.Host = net.JoinHostPort(address, port)
	case u.Hostname() == "localhost", ip != nil && ip.IsLoopback():
		return "", exit.Errorf(exit.Failed, "the broker at %s listens to this machine alone", u.Redacted()).
			Hinted("start it with berth up --listen 0.0.0.0:%s --tls-cert FILE --tls-key FILE (or --insecure in a network you trust); "+
				"if others reach it under another address: berth join --address HOST", port)
	case ip != nil && ip.IsUnspecified():
		u.Host = net.JoinHostPort(host, port)
	}
	return u.String(), nil
}

// joinLine begins with a space, which keeps the token out of the history of most shells.
func joinLine(server string, c config.Client) string {
	line := " BERTH_SERVER=" + server
	switch {
	case c.Creds != "":
		line += " BERTH_CREDS=" + c.Creds
	case c.Token != "":
		line += " BERTH_TOKEN=" + c.Token
	}
	return line + " worker"
}
