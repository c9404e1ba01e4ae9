package submit_test

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
)

// TestMain makes the test program the filter as well: called by that name it is the filter, so
// that `go test` sees a change in it.
func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // a program built with -race sleeps for a second when it ends
	testscript.Main(m, map[string]func(){"pcs-capacity-filter": func() { os.Exit(submit.Main(os.Args[1:])) }})
}
