package fakerun

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const key = "BERTH_FAKERUN"

// Command is the argv of a job that follows the script.
func Command(script ...string) []string {
	exe, err := os.Executable()
	if err != nil {
		panic(err) // a test binary that cannot find itself cannot test
	}
	return append([]string{exe}, script...)
}

// Env is the environment that makes the test binary such a job. One built with -race would sleep a second at its end.
func Env(more ...string) []string { return append([]string{key + "=1", noSleep}, more...) }

const noSleep = "GORACE=atexit_sleep_ms=0"

// Take becomes the job, and never returns, when the process was started as one.
func Take() {
	if os.Getenv(key) == "" {
		return
	}
	for _, word := range os.Args[1:] {
		verb, value, _ := strings.Cut(word, "=")
		do, ok := verbs[verb]
		if !ok {
			fail("fakerun: no such word: " + word)
		}
		do(value)
	}
	os.Exit(0)
}

var verbs map[string]func(string)

func init() {
	verbs = map[string]func(string){
		"print":  func(s string) { fmt.Println(s) },
		"err":    func(s string) { fmt.Fprintln(os.Stderr, s) },
		"raw":    func(s string) { fmt.Print(s) },
		"lines":  lines,
		"flood":  flood,
		"long":   long,
		"env":    func(string) { env := os.Environ(); slices.Sort(env); fmt.Println(strings.Join(env, "\n")) },
		"result": func(s string) { write(os.Getenv("BERTH_RESULT_FILE"), s) },
		"sleep":  func(s string) { time.Sleep(duration(s)) },
		"touch":  func(s string) { write(s, "") },
		"wait":   await,
		"ignore": func(s string) { signal.Ignore(signalOf(s)) },
		"on":     on,

		"daemon":       func(s string) { daemon(s, os.Environ()) },
		"daemon-clean": func(s string) { daemon(s, Env()) },
		"write-pid":    func(s string) { write(s, strconv.Itoa(os.Getpid())) },
		"children":     func(s string) { spawn(number(s), "hang") },
		"bomb":         bomb,
		"grow":         grow,
		"kill":         func(s string) { _ = syscall.Kill(os.Getpid(), signalOf(s)); select {} },
		"exit":         func(s string) { os.Exit(number(s)) },
		"hang":         func(string) { hang() },
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(99)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		fail("fakerun: " + err.Error())
	}
	return n
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		fail("fakerun: " + err.Error())
	}
	return d
}

func signalOf(s string) syscall.Signal {
	sig := unix.SignalNum("SIG" + s)
	if sig == 0 {
		fail("fakerun: no signal " + s)
	}
	return sig
}

// write makes a file appear with its content at once.
func write(path, text string) {
	if err := os.WriteFile(path+".part", []byte(text), 0o644); err != nil {
		fail("fakerun: " + err.Error())
	}
	if err := os.Rename(path+".part", path); err != nil {
		fail("fakerun: " + err.Error())
	}
}

func lines(s string) {
	out := bufio.NewWriter(os.Stdout)
	for i := range number(s) {
		fmt.Fprintf(out, "line %d\n", i+1)
	}
	if err := out.Flush(); err != nil {
		fail("fakerun: " + err.Error())
	}
}

func flood(s string) {
	block := bytes.Repeat(append(bytes.Repeat([]byte{'x'}, 79), '\n'), 400)
	for left := number(s); left > 0; {
		n, err := os.Stdout.Write(block[:min(left, len(block))])
		if err != nil {
			fail("fakerun: " + err.Error())
		}
		left -= n
	}
}

func long(s string) {
	block := bytes.Repeat([]byte{'y'}, 1<<16)
	for left := number(s); left > 0; {
		n, err := os.Stdout.Write(block[:min(left, len(block))])
		if err != nil {
			fail("fakerun: " + err.Error())
		}
		left -= n
	}
	fmt.Println()
}

func await(path string) {
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func on(name string) {
	c := make(chan os.Signal, 4)
	signal.Notify(c, signalOf(name))
	go func() {
		for range c {
			reason, _ := os.ReadFile(os.Getenv("BERTH_STOP_REASON_FILE"))
			fmt.Println(strings.TrimSpace("got " + name + "\n" + string(reason)))
		}
	}()
}

func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

func spawn(n int, script ...string) {
	for range n {
		argv := Command(script...)
		if err := exec.Command(argv[0], argv[1:]...).Start(); err != nil {
			return // no more processes allowed: enough
		}
	}
}

// daemon forks twice, so that the grandchild has no parent in the run, and a session of its own.
func daemon(path string, env []string) {
	argv := Command("ignore=TERM", "write-pid="+path, "hang")
	if _, err := os.Stat(path + ".middle"); err != nil {
		write(path+".middle", "")
		middle := Command("daemon=" + path)
		cmd := exec.Command(middle[0], middle[1:]...)
		cmd.Env = env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Run(); err != nil {
			fail("fakerun: " + err.Error())
		}
		await(path)
		return
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fail("fakerun: " + err.Error())
	}
}

// bomb doubles until it is killed or the machine refuses; a limit of its own keeps a failing test from taking the
// machine down.
func bomb(s string) {
	depth := 6
	if s != "" {
		depth = number(s)
	}
	for depth > 0 {
		spawn(2, "bomb="+strconv.Itoa(depth-1))
		time.Sleep(20 * time.Millisecond)
		depth--
	}
	hang()
}

func grow(s string) {
	b := make([]byte, number(s)<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println("grown", len(b)>>20)
}
