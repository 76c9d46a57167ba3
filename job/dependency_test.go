package job_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/berthq/berth/job"
)

func TestDependencyText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"12": "after-ok:12", "after-ok:12": "after-ok:12", "after_ok: 12": "after-ok:12", "after:12|13.4": "after:12|13.4", "prep": "after-ok:prep",
	} {
		var d job.Dependency
		if err := d.UnmarshalText([]byte(text)); err != nil || d.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, d, err, want)
		}
	}
	for _, text := range []string{"", "after-ok:", "before:12", "after:12||13"} {
		if err := new(job.Dependency).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	specs, err := job.ParseSpecs([]byte("command: [echo]\ndepends_on: [prep, 'after:12|13']\nif_parent_fails: wait\n"), "x.yaml")
	if err != nil || len(specs[0].DependsOn) != 2 || !specs[0].DependsOn[1].AnyEnd {
		t.Fatalf("%+v, %v", specs, err)
	}
	body, err := json.Marshal(specs[0])
	if err != nil || !strings.Contains(string(body), `"depends_on":["after-ok:prep","after:12|13"]`) {
		t.Errorf("%s, %v", body, err)
	}
	for _, bad := range []string{"if_parent_fails: wait", "depends_on: [a]\nif_parent_fails: explode", "depends_on: ['x:1']"} {
		if _, err := job.ParseSpecs([]byte("command: [echo]\n"+bad+"\n"), "x.yaml"); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestMet(t *testing.T) {
	t.Parallel()
	states := map[string]job.State{
		"ok": job.Succeeded, "bad": job.Failed, "gone": job.Cancelled, "late": job.Expired, "dead": job.Dead,
		"runs": job.Running, "waits": job.Queued, "held": job.Held,
	}
	for _, c := range []struct {
		conditions string
		met        bool
		failed     string
	}{
		{"ok", true, ""}, {"runs", false, ""}, {"waits", false, ""}, {"held", false, ""},
		{"bad", false, "job bad ended failed"}, {"gone", false, "job gone ended cancelled"}, {"late", false, "job late ended expired"},
		{"dead", false, "job dead ended dead"}, {"unknown", false, "job unknown is not known any more"},
		{"after:bad", true, ""}, {"after:dead", true, ""}, {"after:runs", false, ""}, {"after:unknown", true, ""},
		{"ok,runs", false, ""}, {"ok,ok", true, ""}, {"runs,bad", false, "job bad ended failed"}, // at once, not when all have ended
		{"bad|ok", true, ""}, {"bad|runs", false, ""}, {"bad|dead", false, "job bad ended failed, job dead ended dead"},
		{"after:runs|bad", true, ""},
	} {
		var all []job.Dependency
		for text := range strings.SplitSeq(c.conditions, ",") {
			var d job.Dependency
			if err := d.UnmarshalText([]byte(text)); err != nil {
				t.Fatal(err)
			}
			all = append(all, d)
		}
		if met, failed := job.Met(all, func(n string) job.State { return states[n] }); met != c.met || failed != c.failed {
			t.Errorf("%s: %v %q, want %v %q", c.conditions, met, failed, c.met, c.failed)
		}
	}
}
