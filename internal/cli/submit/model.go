package submit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berthq/berth/estimator"
	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/job"
)

// maxConfig bounds a model's config.json; real ones are a few KiB.
const maxConfig = 1 << 20

// estimateOptions put this machine's files at the estimator's hand: a model's config.json and the engine's own.
func estimateOptions(s job.Spec, env cli.Env) estimator.Options {
	return estimator.Options{
		Config:     func(id string) (estimator.ConfigFile, bool) { return findConfig(id, env, s.Workdir) },
		EngineFile: func(path string) ([]byte, error) { return os.ReadFile(absolute(s.Workdir, path)) },
	}
}

// findConfig looks for a model's config.json: at the path, then in the Hugging Face cache.
func findConfig(id string, env cli.Env, dir string) (estimator.ConfigFile, bool) {
	if id == "" {
		return estimator.ConfigFile{}, false
	}
	path := absolute(dir, id)
	for _, p := range []string{path, filepath.Join(path, "config.json")} {
		if data, ok := readConfig(p); ok {
			return estimator.ConfigFile{JSON: data, Source: p, Local: true}, true
		}
	}
	pattern := filepath.Join(hubCache(env), "models--"+strings.ReplaceAll(id, "/", "--"), "snapshots", "*", "config.json")
	snapshots, err := filepath.Glob(pattern)
	if err != nil { // the id is no file name
		return estimator.ConfigFile{}, false
	}
	slices.SortFunc(snapshots, newestFirst)
	for _, p := range snapshots {
		if data, ok := readConfig(p); ok {
			return estimator.ConfigFile{JSON: data, Source: "Hugging Face cache"}, true
		}
	}
	return estimator.ConfigFile{}, false
}

// hubCache is where Hugging Face's own libraries keep what they fetched.
func hubCache(env cli.Env) string {
	if dir := env.Getenv("HF_HUB_CACHE"); dir != "" {
		return dir
	}
	if home := env.Getenv("HF_HOME"); home != "" {
		return filepath.Join(home, "hub")
	}
	return filepath.Join(env.Getenv("HOME"), ".cache", "huggingface", "hub")
}

func readConfig(path string) ([]byte, bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxConfig || filepath.Ext(path) != ".json" {
		return nil, false
	}
	data, err := os.ReadFile(path)
	return data, err == nil
}

func newestFirst(a, b string) int {
	ia, errA := os.Stat(a)
	ib, errB := os.Stat(b)
	if errA != nil || errB != nil {
		return strings.Compare(b, a)
	}
	return ib.ModTime().Compare(ia.ModTime())
}
