package house_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rooms lists what each room may import of the house. Sub-packages belong to their room. The arrows point inward: the
// adapters (queue, gpuslots, runner, estimator) never meet, worker is where they do.
var rooms = map[string][]string{
	"job":              {},
	"telemetry":        {"job"},
	"estimator":        {"job"},
	"queue":            {"job"},
	"gpuslots":         {"job", "telemetry"},
	"runner":           {"job", "telemetry"},
	"worker":           {"job", "telemetry", "estimator", "queue", "gpuslots", "runner"},
	"natsembed":        {},
	"web":              {"job", "queue", "telemetry", "metrics"},
	"metrics":          {"job", "queue"},
	"client":           {"job", "queue", "estimator", "internal/config"},
	"internal/version": {},
	"internal/config":  {"job"},
	"internal/logs":    {"job"},
	"internal/webhook": {},
	"internal/house":   {},
	"internal/day":     {"job", "queue"},
	"internal/service": {},
	"internal/release": {"internal/cli", "internal/service"},
	"docs":             {},

	// What joins the rooms may know them all; see also TestSubmitLinksLittle.
	"internal/cli":  anyRoom,
	"internal/demo": anyRoom,
	"cmd":           anyRoom,
	"bench":         anyRoom,
	"examples":      anyRoom,
}

var anyRoom = []string{"*"}

// guarded are the libraries that only some packages may import. A trailing /... takes in what is below.
var guarded = map[string][]string{
	"github.com/nats-io/nats.go":     {"queue/...", "worker", "natsembed/...", "internal/cli/...", "cmd/...", "web", "bench/...", "examples/..."},
	"github.com/nats-io/nats-server": {"natsembed"},
	"github.com/NVIDIA/go-nvml":      {"telemetry/nvml"},
	"github.com/moby/moby":           {"runner/container/..."},
	"github.com/prometheus":          {"metrics"},
	"C":                              {"telemetry/nvml"},
	"runtime/cgo":                    {},
	"testing":                        {"natsembed/natstest", "runner/runnertest", "runner/container/enginetest", "telemetry/conformance", "telemetry/fakenvml"},
}

func roomOf(name string) string {
	parts := strings.Split(name, "/")
	if parts[0] == "internal" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

func TestRoomsKeepTheirDistance(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "1", "./...") {
		room := roomOf(p.name())
		allowed, known := rooms[room]
		if !known {
			t.Errorf("%s: the house has no room %q; add it to the table here and in the documentation", p.name(), room)
			continue
		}
		for _, imported := range p.Imports {
			inside, ours := strings.CutPrefix(imported, module+"/")
			other := roomOf(inside)
			if ours && other != room && !slices.Contains(allowed, other) && !slices.Contains(allowed, "*") {
				t.Errorf("%s imports %s: %s may know only %v", p.name(), inside, room, allowed)
			}
		}
	}
}

func TestLibrariesHaveTheirPlace(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "1", "./...") {
		imports := p.Imports
		if len(p.CgoFiles) > 0 {
			imports = append(slices.Clone(imports), "C")
		}
		for _, imported := range imports {
			for library, places := range guarded {
				if within(imported, library) && !slices.ContainsFunc(places, func(place string) bool { return matches(p.name(), place) }) {
					t.Errorf("%s imports %s, which only %v may", p.name(), imported, places)
				}
			}
		}
	}
}

func within(path, library string) bool {
	return path == library || strings.HasPrefix(path, library+"/")
}

func matches(name, place string) bool {
	if base, below := strings.CutSuffix(place, "/..."); below {
		return within(name, base)
	}
	return name == place
}

// In worker only control.go speaks to the broker itself; everything else goes through queue.
func TestWorkerSpeaksNATSInOneFile(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(root + "/worker/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "control.go" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if within(path, "github.com/nats-io/nats.go") {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}

// What a package links is more than what it imports: the adapters stay free of each other's libraries all the way down.
func TestNothingHeavyCreepsIn(t *testing.T) {
	t.Parallel()
	for room, libraries := range map[string][]string{
		"job":       {"github.com/nats-io", "github.com/NVIDIA", "net", "os/exec"},
		"estimator": {"github.com/nats-io", "github.com/NVIDIA", "net", "os/exec"},
		"gpuslots":  {"github.com/nats-io", "github.com/NVIDIA", "net"},
		"runner":    {"github.com/nats-io", "github.com/NVIDIA", "github.com/moby"},
		"telemetry": {"github.com/nats-io", "github.com/NVIDIA"},
		"queue":     {"github.com/nats-io/nats-server", "github.com/NVIDIA"},
		"worker":    {"github.com/nats-io/nats-server", "github.com/NVIDIA"},
		"client":    {"github.com/nats-io/nats-server", "github.com/NVIDIA", "github.com/spf13/cobra", "github.com/prometheus"},
	} {
		for _, p := range list(t, "1", "-deps", "./"+room) {
			for _, library := range libraries {
				if p.ImportPath == library || !p.Standard && within(p.ImportPath, library) {
					t.Errorf("%s links %s", room, p.ImportPath)
				}
			}
		}
	}
}

// submit is copied to login machines: one small static file.
func TestSubmitLinksLittle(t *testing.T) {
	t.Parallel()
	deps := list(t, "1", "-deps", "./cmd/submit")
	if len(deps) < 50 {
		t.Fatalf("cmd/submit has %d dependencies: the list is wrong", len(deps))
	}
	for _, p := range deps {
		switch {
		case within(p.ImportPath, "github.com/nats-io/nats-server"), within(p.ImportPath, "github.com/NVIDIA/go-nvml"), within(p.ImportPath, "github.com/prometheus"):
			t.Errorf("cmd/submit links %s", p.ImportPath)
		case !p.Standard && len(p.CgoFiles) > 0:
			t.Errorf("cmd/submit links %s, which needs cgo", p.ImportPath)
		case slices.Contains([]string{"natsembed", "worker", "runner", "web", "metrics"}, roomOf(p.name())):
			t.Errorf("cmd/submit links %s", p.name())
		}
	}
}
