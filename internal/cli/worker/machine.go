package worker

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/berthq/berth/internal/config"
)

// cpus is how many cores this process may use, a container's quota included.
func cpus() int { return runtime.GOMAXPROCS(0) }

// memoryMB is the host memory there is for runs: the machine's, or this control group's limit when that is less. 0 is
// unknown.
func memoryMB() int64 {
	total := meminfo("/proc/meminfo")
	if limit := cgroupLimit("/sys/fs/cgroup", "/proc/self/cgroup"); limit > 0 && (total == 0 || limit < total) {
		return limit
	}
	return total
}

func meminfo(path string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0
			}
			return kib / 1024
		}
	}
	return 0
}

// cgroupLimit is the least memory.max from this process's group (cgroup v2) up to the root.
func cgroupLimit(root, self string) int64 {
	data, err := os.ReadFile(self)
	if err != nil {
		return 0
	}
	_, group, found := strings.Cut(string(data), "0::")
	if !found {
		return 0
	}
	group, _, _ = strings.Cut(group, "\n")
	var least int64
	for dir := filepath.Join("/", group); ; dir = filepath.Dir(dir) {
		if limit := memoryMax(filepath.Join(root, dir, "memory.max")); limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
		if dir == "/" {
			return least
		}
	}
}

func memoryMax(path string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil { // "max"
		return 0
	}
	return limit >> 20
}

// lockDir is where the workers of this machine lock GPUs: one folder, whoever runs them. It must be open to every user:
// the umask would otherwise make the first worker's user its owner. Simulated GPUs are nobody else's: the worker that
// makes them up locks them in its own store.
func lockDir(w config.Worker) (string, error) {
	if strings.HasPrefix(w.GPUSource, "sim:") {
		dir := filepath.Join(w.Store, "locks")
		return dir, os.MkdirAll(dir, 0o700)
	}
	parent := "/run/lock"
	if info, err := os.Stat(parent); err != nil || !info.IsDir() {
		parent = "/tmp"
	}
	dir := filepath.Join(parent, "berth")
	err := os.Mkdir(dir, 0o777)
	if os.IsExist(err) {
		return dir, nil
	}
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o777)
}
