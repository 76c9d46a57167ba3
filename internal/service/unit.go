package service

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Mark begins every unit that Berth wrote; one without it is somebody's own, and never removed.
const Mark = "# Written by Berth"

// SubgroupSince is the version of systemd that can put a service's own processes into a group below the delegated one.
const SubgroupSince = 254

// Unit is one service of Berth's.
type Unit struct {
	Name        string // without .service
	Description string
	Again       string   // the command that writes it
	Exec        []string // argv, the program as an absolute path
	EnvFile     string   // "" for none
	System      bool     // of the machine; else of a user
	Version     int      // of systemd; 0 where it is not known, then all keys are written
}

// Text is the unit file.
func (u Unit) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s: %s. systemctl edit %s adds to it, and is kept.", Mark, u.Again, u.Name)
	line("[Unit]\nDescription=%s", escaped(u.Description))
	if u.System {
		line("Wants=network-online.target\nAfter=network-online.target nvidia-persistenced.service")
	}
	line("# A broker or a driver that is away for an hour is no reason to give up.\nStartLimitIntervalSec=0")
	line("\n[Service]\nType=exec\nExecStart=%s", execLine(u.Exec))
	if u.EnvFile != "" {
		line("EnvironmentFile=-%s", escaped(u.EnvFile))
	}
	line("Restart=always\nRestartSec=2")
	line("# 2: the settings are wrong, and would be the next time.\nRestartPreventExitStatus=2")
	line("# A stop or a restart ends the worker alone. Runs go on under their shims and the next worker adopts them.\nKillMode=process")
	line("# A run gets control groups of its own: limits, and nothing left behind.\nDelegate=yes")
	if u.Version == 0 || u.Version >= SubgroupSince {
		line("DelegateSubgroup=worker")
	}
	line("# A run that the kernel ends for its memory is that run's end, not the worker's.\nOOMPolicy=continue\nTasksMax=infinity")
	if u.System {
		line("LimitMEMLOCK=infinity\nLimitNOFILE=65536:1048576")
	}
	line("\n[Install]\nWantedBy=%s", map[bool]string{true: "multi-user.target", false: "default.target"}[u.System])
	return b.String()
}

// File is where the unit belongs. userDir is the user's folder of settings (~/.config).
func (u Unit) File(userDir string) string {
	if u.System {
		return filepath.Join("/etc/systemd/system", u.Name+".service")
	}
	return filepath.Join(userDir, "systemd", "user", u.Name+".service")
}

// execLine writes an argv as systemd reads it.
func execLine(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		w = strings.ReplaceAll(escaped(w), "$", "$$")
		if w == "" || strings.ContainsAny(w, " \t\"'\\;") {
			w = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w) + `"`
		}
		words[i] = w
	}
	return strings.Join(words, " ")
}

// escaped keeps systemd from reading a specifier into a text.
func escaped(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// ParseVersion reads the first line of `systemctl --version`: "systemd 252 (252.39-1~deb12u2)".
func ParseVersion(text string) (version int, ok bool) {
	words := strings.Fields(text)
	if len(words) < 2 || words[0] != "systemd" {
		return 0, false
	}
	version, err := strconv.Atoi(words[1])
	return version, err == nil && version > 0
}
