package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// ClientPrefix begins the keys of how to reach the broker.
const ClientPrefix = "BERTH_"

// DefaultServer is where a broker of one's own listens.
const DefaultServer = "nats://127.0.0.1:4222"

// Client is how to reach the broker. At most one of Creds and Token is set.
type Client struct {
	Server  string `env:"SERVER" value:"URL" usage:"the broker"`
	Creds   string `env:"CREDS" value:"FILE" usage:"NATS credentials"`
	Context string `env:"CONTEXT" value:"NAME" usage:"NATS context to take the rest from"`
	Token   string `env:"TOKEN" value:"TOKEN" secret:"yes"`
}

// ClientSources are the layers the client's settings come from.
type ClientSources struct {
	Flags   *pflag.FlagSet // with --server, --creds, --context where a command has them; nil: none
	Environ []string       // KEY=value
	File    string         // "": what `berth up` wrote, if it did
}

// LoadClient gives the settings, and for each where it came from.
//
// Token and credentials that stand in a file or a NATS context go only to the server named beside them. Of the two, the
// one from the stronger layer counts.
func LoadClient(from ClientSources) (Client, Settings, error) {
	options := optionsOf(Client{}, ClientPrefix)
	environ := environMap(from.Environ)
	file, err := clientEntries(from, environ, keysOf(options))
	if err != nil {
		return Client{}, nil, err
	}
	settings := layered(options, from.Flags, environ, file, nil)
	if settings, err = fillFromContext(settings, environ); err != nil {
		return Client{}, nil, err
	}
	settings.bindSecrets(file[ClientPrefix+"SERVER"].value)
	if server, _ := settings.Get("server"); server.Value == "" {
		settings.set("server", Setting{Value: DefaultServer, Layer: LayerDefault})
	}
	var c Client
	if err := decode(settings, options, ClientPrefix, &c); err != nil {
		return Client{}, nil, err
	}
	return c, settings.hidden(options), nil
}

// clientEntries reads the named file, or the first of the usual ones; none is no error.
func clientEntries(from ClientSources, environ map[string]string, known []string) (map[string]entry, error) {
	path := from.File
	if path == "" {
		path = firstFile(environ, clientFile)
	}
	if path == "" {
		return nil, nil
	}
	entries, err := readKeyFile(path, known)
	if from.File == "" && errors.Is(err, fs.ErrPermission) {
		return nil, nil // the machine's file is for a group this user is not in: as if it were not there
	}
	return entries, err
}

// bindSecrets drops secrets that are not for the server that was chosen.
func (s Settings) bindSecrets(fileServer string) {
	server, _ := s.Get("server")
	for _, name := range []string{"creds", "token"} {
		x, _ := s.Get(name)
		if x.Layer == LayerFile && server.Value != "" && server.Value != fileServer {
			s.set(name, Setting{Layer: LayerDefault})
		}
	}
	creds, _ := s.Get("creds")
	token, _ := s.Get("token")
	switch {
	case creds.Value == "" || token.Value == "":
	case token.rank() > creds.rank():
		s.set("creds", Setting{Layer: LayerDefault})
	default:
		s.set("token", Setting{Layer: LayerDefault})
	}
}

func (s Setting) rank() int {
	return map[Layer]int{LayerDefault: 0, LayerFile: 1, LayerEnvironment: 2, LayerFlag: 3}[s.Layer]
}

// set changes value and origin of a setting.
func (s Settings) set(name string, to Setting) {
	for i := range s {
		if s[i].Name == name {
			s[i].Value, s[i].Layer, s[i].Where = to.Value, to.Layer, to.Where
		}
	}
}

const clientFile = "client.env"

// ClientFile is where `berth up` writes how to reach its broker: the user's folder, or the machine's when system is set.
func ClientFile(environ []string, system bool) (string, error) {
	if system {
		return filepath.Join(systemConfigDir, clientFile), nil
	}
	dir := userConfigDir(environMap(environ))
	if dir == "" {
		return "", errors.New("there is no home folder for " + clientFile + ": set HOME or XDG_CONFIG_HOME")
	}
	return filepath.Join(dir, clientFile), nil
}

// WriteClientFile stores how to reach a broker, readable by its owner alone, and never half written.
func WriteClientFile(path string, c Client) error {
	var b strings.Builder
	b.WriteString("# How Berth's commands on this machine reach the broker. Written by berth up.\n")
	for _, kv := range [][2]string{{"SERVER", c.Server}, {"CREDS", c.Creds}, {"CONTEXT", c.Context}, {"TOKEN", c.Token}} {
		if strings.ContainsAny(kv[1], "\n\r\x00") {
			return fmt.Errorf("write %s: the value of %s%s has a line break", path, ClientPrefix, kv[0])
		}
		if kv[1] != "" {
			fmt.Fprintf(&b, "%s%s=%s\n", ClientPrefix, kv[0], quoteValue(kv[1]))
		}
	}
	return writePrivate(path, b.String())
}

// ReadClientFile reads what WriteClientFile wrote. A file that is not there is an error that is fs.ErrNotExist.
func ReadClientFile(path string) (Client, error) {
	options := optionsOf(Client{}, ClientPrefix)
	entries, err := readKeyFile(path, keysOf(options))
	if err != nil {
		return Client{}, err
	}
	var c Client
	err = decode(layered(options, nil, nil, entries, nil), options, ClientPrefix, &c)
	return c, err
}

func writePrivate(path, text string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	f, err := os.CreateTemp(dir, ".client-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
