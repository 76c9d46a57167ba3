// Package fakerun is the program that tests run as a job: the test binary itself, started again, misbehaving on
// request.
//
// It owns the behaviours. It is for tests alone and never part of a command. A TestMain calls [Take] first; a test uses
// [Command] and [Env]:
//
//	func TestMain(m *testing.M) {
//		fakerun.Take()
//		goleak.VerifyTestMain(m)
//	}
//
// A script is a list of words done in order, "verb" or "verb=value":
//
//	print=TEXT err=TEXT     a line on stdout, on stderr
//	raw=TEXT                bytes on stdout without a newline
//	lines=N                 numbered lines on stdout
//	flood=BYTES             lines of 80 bytes on stdout until so many are written
//	long=BYTES              one line, as long as that
//	env                     the environment, sorted
//	result=TEXT             into BERTH_RESULT_FILE
//	sleep=DURATION          that long
//	touch=PATH wait=PATH    make a file; wait until a file exists
//	ignore=SIGNAL           not to be ended by it
//	on=SIGNAL               when it comes: print "got SIGNAL" and, for stop, the reason file; goes on
//	daemon=PATH             a double-forked child in a session of its own, ignoring TERM; its pid goes to PATH
//	daemon-clean=PATH       the same with an empty environment
//	children=N              so many children that sleep
//	bomb                    children that fork without end
//	grow=MIB                so much memory, touched
//	kill=SIGNAL             itself
//	exit=N                  with that code
//	hang                    for ever
package fakerun
