// Command job is what runs in the images of tests: it does what its arguments say, one after the other.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	for _, word := range os.Args[1:] {
		verb, rest, _ := strings.Cut(word, "=")
		do, known := verbs[verb]
		if !known {
			fmt.Println("what is", word+"?")
			os.Exit(99)
		}
		do(rest)
	}
}

var verbs = map[string]func(string){
	"out":  func(s string) { fmt.Println(s) },
	"err":  func(s string) { fmt.Fprintln(os.Stderr, s) },
	"env":  func(s string) { fmt.Println(s + "=" + os.Getenv(s)) },
	"who":  func(string) { groups, _ := os.Getgroups(); fmt.Println(os.Getuid(), os.Getgid(), groups) },
	"here": func(string) { dir, err := os.Getwd(); fmt.Println(dir, err) },
	"exit": func(s string) { os.Exit(number(s)) },
	"eat":  func(s string) { eat(number(s)) },
	"wait": func(string) { <-stops(); fmt.Println("asked") },
	"stay": func(string) {
		for range stops() {
			fmt.Println("no")
		}
	},
	"write": write,
	"read":  read,
	"child": child,
	"shm":   shm,
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		fmt.Println(err)
		os.Exit(99)
	}
	return n
}

// stops says that it listens, and gets the asking to stop.
func stops() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	fmt.Println("waiting")
	return c
}

// eat uses so many MiB.
func eat(mb int) {
	b := make([]byte, mb<<20)
	for i := range b {
		b[i] = 1
	}
	fmt.Println("ate", len(b)>>20)
}

// write makes a file, or tells a FIFO: PATH:TEXT, with variables.
func write(s string) {
	path, text, _ := strings.Cut(s, ":")
	if err := os.WriteFile(os.ExpandEnv(path), []byte(os.ExpandEnv(text)+"\n"), 0o644); err != nil {
		fmt.Println(err)
		os.Exit(9)
	}
}

// read waits for what a FIFO says.
func read(path string) {
	if _, err := os.ReadFile(path); err != nil {
		fmt.Println(err)
		os.Exit(9)
	}
}

// child leaves a process behind that stays, in a session of its own.
func child(string) {
	c := exec.Command(os.Args[0], "stay")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		fmt.Println(err)
		os.Exit(9)
	}
}

// shm says how large /dev/shm is, in MiB.
func shm(string) {
	var s syscall.Statfs_t
	err := syscall.Statfs("/dev/shm", &s)
	fmt.Println("shm", int64(s.Blocks)*s.Bsize>>20, err)
}
