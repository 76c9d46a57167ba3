package cgroup

import "testing"

// A controller is found also where it shares its hierarchy, and is not taken for another with its name inside.
func TestLegacyPath(t *testing.T) {
	t.Parallel()
	const groups = "7:cpuset:/set\n4:cpu,cpuacct:/user.slice\n3:memory:/a:b\n1:name=systemd:/init\n0::/v2\n"
	for controller, want := range map[string]string{"cpu": "/user.slice", "cpuacct": "/user.slice", "memory": "/a:b", "cpuset": "/set"} {
		if got, err := legacyPath(groups, controller); err != nil || got != want {
			t.Errorf("%s is at %q (%v), want %q", controller, got, err, want)
		}
	}
	for _, none := range []string{"pids", "set"} {
		if got, err := legacyPath(groups, none); err == nil {
			t.Errorf("%s is at %q", none, got)
		}
	}
}
