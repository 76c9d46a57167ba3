package queue

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// atATime is how many tests run at a time: they wait for brokers and time limits, not for the processor.
const atATime = "6"

func TestMain(m *testing.M) {
	if err := beSeveral(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}

// beSeveral sets how many tests run at a time, unless the command line does.
func beSeveral() error {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if said {
		return nil
	}
	return flag.Set("test.parallel", atATime)
}
