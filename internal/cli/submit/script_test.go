package submit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/job"
)

// submitted is the spec of `submit LINE` in a folder, and the directives it left out.
func submitted(t *testing.T, dir, line string) (job.Spec, []string, error) {
	t.Helper()
	cmd := &cobra.Command{Use: "submit"}
	f := bind(cmd)
	if err := cmd.ParseFlags(strings.Fields(line)); err != nil {
		return job.Spec{}, nil, err
	}
	env := cli.Env{Dir: dir, User: "u", Now: time.Now, Stdin: strings.NewReader("")}
	args, dash, unknown := f.set.Args(), f.set.ArgsLenAtDash(), []string(nil)
	script, err := f.openScript(env, args, dash)
	if err != nil {
		return job.Spec{}, nil, err
	}
	if script != nil {
		args, dash, unknown = script.command, 0, script.unknown
	}
	jobs, err := f.prepare(env, args, dash)
	if err != nil {
		return job.Spec{}, unknown, err
	}
	return jobs[0].job.Spec, unknown, nil
}

func TestScriptSaysItsFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("job.sh", `#!/usr/bin/env -S bash -e

# a remark
#BERTH -g 2 -m20Gi --label team=a --label 'note=two words' -e A=script -e B=script   # more
#BERTH --hold --colour red
#BERTHOLD -g 9
#SBATCH --time=1-12 -p gpu --mem 64G -c 8
#SBATCH -a 1-3 -N 1
echo "$1"
#BERTH -g 7
`)
	s, unknown, err := submitted(t, dir, "-t 2h --label team=b -e A=typed job.sh x --gpus 5")
	if err != nil {
		t.Fatal(err)
	}
	if want := (job.Command{"/usr/bin/env", "-S", "bash", "-e", job.ScriptPath, "x", "--gpus", "5"}); !slices.Equal(s.Command, want) {
		t.Errorf("command %q, want %q", s.Command, want)
	}
	if on, err := os.ReadFile(filepath.Join(dir, "job.sh")); err != nil || s.Script != string(on) {
		t.Errorf("the text in the spec is %q (%v)", s.Script, err)
	}
	if want := []string{"line 5: --colour", "line 7: -p", "line 8: -N"}; !slices.Equal(unknown, want) {
		t.Errorf("left out %q, want %q", unknown, want)
	}
	if n, _ := s.Resources.GPUs.Value(); n != 2 || s.Resources.GPUMemory != job.MemoryOf(20480) ||
		s.Resources.Memory != job.MemoryOf(65536) || s.Resources.CPUs != 8 || s.Array != "1-3" || !s.Hold || s.Name != "job.sh" {
		t.Errorf("the head of the script is not in the spec: %+v", s)
	}
	if s.TimeLimit != job.Duration(2*time.Hour) || s.Labels["team"] != "b" || *s.Env["A"] != "typed" {
		t.Errorf("what was typed does not win: limit %v, labels %v, A=%s", s.TimeLimit, s.Labels, *s.Env["A"])
	}
	if s.Labels["note"] != "two words" || *s.Env["B"] != "script" {
		t.Errorf("labels and variables do not add up: %v, B=%s", s.Labels, *s.Env["B"])
	}

	for head, want := range map[string]string{
		"#BERTH -g":                       "line 1: -g needs a value",
		"#BERTH --hold yes":               "--hold takes no value",
		"#BERTH -g lots":                  "not a count",
		"#BERTH 2":                        `"2" belongs to no option`,
		"#BERTH -J 'x":                    "left open",
		"#BERTH -f x.yaml":                "the script is the command",
		"#BERTH --preemptible":            "--preemptible is not in this version yet",
		"#SBATCH -d noneof:7":             "afterok and afterany",
		"#SBATCH --gres=tpu:4":            "gpu:NUMBER",
		"#!/bin/sh\n#SBATCH --time=later": "line 2: --time",
	} {
		put("wrong.sh", head+"\n")
		if _, _, err := submitted(t, dir, "wrong.sh"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", head, err, want)
		}
	}

	put("latin.sh", "#!/bin/sh\necho caf\xe9\n")
	if _, _, err := submitted(t, dir, "latin.sh"); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("a text that JSON would garble was taken: %v", err)
	}
	put("large.sh", "#!/bin/sh\n"+strings.Repeat("# <&>\n", 50<<10))
	if _, _, err := submitted(t, dir, "large.sh"); err == nil || !strings.Contains(err.Error(), "keep it in a file") {
		t.Errorf("a script larger than a spec may be: %v", err)
	}

	put("train.py", "print()\n")
	if _, _, err := submitted(t, dir, "train.py"); err == nil || !strings.Contains(err.Error(), "needs --") {
		t.Errorf("a program without #! was taken for a script: %v", err)
	}
}

func TestSlurmSpellings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30": 30 * time.Minute, "30:10": 30*time.Minute + 10*time.Second, "2:30:00": 150 * time.Minute, "1-12": 36 * time.Hour,
		"1-12:30": 36*time.Hour + 30*time.Minute, "1-00:00:05": 24*time.Hour + 5*time.Second, "UNLIMITED": 0, "0": 0, "2h": 2 * time.Hour,
	} {
		s, _, err := submitted(t, "/", "--time "+text+" -- true")
		if err != nil || s.TimeLimit.Std() != want {
			t.Errorf("--time %s: %v, %v; want %v", text, s.TimeLimit, err, want)
		}
	}
	for text, want := range map[string]string{"gpu": "1 []", "gpu:4": "4 []", "gpu:a100:2": "2 [A100]"} {
		s, _, err := submitted(t, "/", "--gres "+text+" --job-name n -- true")
		if got := s.Resources.GPUs.String() + " [" + strings.Join(s.Resources.GPUModels, " ") + "]"; err != nil || got != want || s.Name != "n" {
			t.Errorf("--gres %s: %s named %q, %v; want %s", text, got, s.Name, err, want)
		}
	}
	for _, line := range []string{"--gres gpu:a:b:1", "--gres gpu:", "--gres license:2", "--time soon"} {
		if _, _, err := submitted(t, "/", line+" -- true"); err == nil {
			t.Errorf("%s was taken", line)
		}
	}
}
