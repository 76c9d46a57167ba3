package metrics_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	dashboardFile = "../deploy/grafana/berth.json"
	alertsFile    = "../deploy/prometheus/alerts.yaml"
)

// query is one expression, and where it stands.
type query struct {
	where, expr string
	says        []string // labels that its text mentions
}

// queriesFit holds every query of the dashboard and of the alerts against what was scraped.
func queriesFit(t *testing.T, h *house) {
	t.Helper()
	known := knownOf(h.scrape(h.own), h.scrape(h.fleet))
	queries := append(dashboardQueries(t), alertQueries(t)...)
	if len(queries) < 25 {
		t.Fatalf("only %d queries were found", len(queries))
	}
	for _, q := range queries {
		for _, problem := range known.problems(q) {
			t.Errorf("%s: %s\n%s", q.where, problem, q.expr)
		}
	}
	checkWithPrometheus(t, h)
}

// Queries that ask for what is not there are found: otherwise the check above shows nothing.
func TestWrongQueriesAreFound(t *testing.T) {
	t.Parallel()
	known := knownOf(parse(t, "berth_gpu_state{state=\"ready\",gpu=\"0\"} 1\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n"))
	for expr, want := range map[string]string{
		`max by (gpu) (berth_gpu_state{state="ready"})`:             "",
		`histogram_quantile(0.9, sum by (le) (rate(h_bucket[5m])))`: "",
		`berth_gpu_stat == 1`:                          "berth_gpu_stat",
		`sum by (machine) (berth_gpu_state)`:           "machine",
		`berth_gpu_state{machine="m"}`:                 "machine",
		`berth_gpu_state{state="redy"}`:                "redy",
		`berth_gpu_state{state=~"ready|sick"}`:         "sick",
		`berth_gpu_state and on (project) h_count > 1`: "project",
		`rate(h[5m])`:         "h",
		`sum(berth_gpu_state`: "bracket",
	} {
		got := strings.Join(known.problems(query{"", expr, nil}), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
	if got := known.problems(query{"", "sum by (gpu) (berth_gpu_state)", []string{"UUID"}}); len(got) != 1 {
		t.Errorf("a label in the text that the query does not give: %v", got)
	}
}

func dashboardQueries(t *testing.T) (all []query) {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	read(t, dashboardFile, json.Unmarshal, &d)
	for _, p := range d.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		for _, q := range p.Targets {
			all = append(all, query{"panel " + p.Title, q.Expr, fieldsIn(legend, q.LegendFormat)})
		}
	}
	values := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for _, v := range d.Templating.List {
		if m := values.FindStringSubmatch(v.Definition); m != nil {
			all = append(all, query{"variable " + v.Name, "max by (" + m[2] + ") (" + m[1] + ")", nil})
		}
	}
	return all
}

func alertQueries(t *testing.T) (all []query) {
	t.Helper()
	var f struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For string
				Labels           map[string]string
				Annotations      map[string]string
			}
		}
	}
	read(t, alertsFile, yaml.Unmarshal, &f)
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || r.Annotations["summary"] == "" || !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
				t.Errorf("alert %q of %s: it needs a name, a summary and a severity", r.Alert, g.Name)
			}
			all = append(all, query{"alert " + r.Alert, r.Expr, fieldsIn(annotation, r.Annotations["summary"]+r.Annotations["description"])})
		}
	}
	return all
}

var (
	legend     = regexp.MustCompile(`\{\{(\w+)\}\}`)
	annotation = regexp.MustCompile(`\$labels\.(\w+)`)
)

func fieldsIn(form *regexp.Regexp, text string) (all []string) {
	for _, m := range form.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

func read(t *testing.T, path string, as func([]byte, any) error, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = as(data, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// checkWithPrometheus lets Prometheus' own engine read and carry out every query on what was scraped: its parser is a
// large module, so it stands in one of its own.
func checkWithPrometheus(t *testing.T, h *house) {
	t.Helper()
	if os.Getenv("BERTH_LONG") == "" {
		t.Log("not run: Prometheus' own engine on these queries; set BERTH_LONG=1 (make test-all)")
		return
	}
	dir := t.TempDir()
	var files []string
	for name, url := range map[string]string{"worker": h.own, "fleet": h.fleet} {
		files = append(files, filepath.Join(dir, name+".prom"))
		if err := os.WriteFile(files[len(files)-1], []byte(h.scrapeText(url)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "promcheck")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".")
	build.Dir = "promcheck"
	if out, err := build.CombinedOutput(); err != nil {
		t.Logf("NOT RUN: Prometheus' own engine could not be built (offline?): %v\n%s", err, out)
		return
	}
	out, err := exec.CommandContext(t.Context(), bin, append([]string{dashboardFile, alertsFile}, files...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
