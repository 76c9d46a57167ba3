package frameworks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/berthq/berth/telemetry"
)

// surveyTimeout is enough for a Python that imports nothing of size, on a slow file system.
const surveyTimeout = 30 * time.Second

// survey is what is installed, without importing anything.
type survey struct {
	Executable string           `json:"executable"`
	Python     string           `json:"python"`
	Packages   map[string]found `json:"packages"` // nil values: absent
	stamp      string
}

type found struct {
	Origin string `json:"origin"` // its file
	Stamp  string `json:"stamp"`  // of that file: when written, how long
	Error  string `json:"error"`
}

func (p *Prober) survey(ctx context.Context, python string) (survey, error) {
	limited, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	var raw struct {
		survey
		Packages map[string]*found `json:"packages"`
	}
	stuck, err := script{python, environ(p.opts.Environ), surveyScript, All()}.ask(limited, &raw)
	if stuck != nil {
		p.stuck = stuck
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("no answer within %s", surveyTimeout)
	}
	if err != nil {
		return survey{}, err
	}
	out := raw.survey
	out.Packages = map[string]found{}
	for name, f := range raw.Packages {
		if f != nil {
			out.Packages[name] = *f
		}
	}
	if info, err := os.Stat(out.Executable); err == nil {
		out.stamp = fmt.Sprintf("%d/%d", info.ModTime().UnixNano(), info.Size())
	}
	return out, nil
}

func (s survey) installed() []string {
	var out []string
	for _, name := range All() {
		if _, ok := s.Packages[name]; ok {
			out = append(out, name)
		}
	}
	return out
}

// key is everything an answer depends on: another interpreter, package, driver or set of GPUs is another question.
func (s survey) key(name string, devices []telemetry.Device) string {
	part := []string{name, s.Executable, s.Python, s.stamp, s.Packages[name].Origin, s.Packages[name].Stamp}
	for _, d := range devices {
		part = append(part, d.UUID, d.Driver)
	}
	return strings.Join(part, "|")
}
