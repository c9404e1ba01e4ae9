package power_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	hooks "github.com/pcs-capacity/pcs-capacity/hooks/power"
	"github.com/pcs-capacity/pcs-capacity/hooks/prolog"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/sources"
)

// TestMain makes the test program the hook programs as well: called by one of these names
// it is that program. So the tests run what they are compiled with, and a change in it is
// a change of the test, which `go test` would not see in programs that are built apart.
func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // a program built with -race sleeps for a second when it ends
	testscript.Main(m, map[string]func(){
		"pcs-capacity-filter":  func() { os.Exit(submit.Main(os.Args[1:])) },
		"pcs-capacity-prolog":  func() { os.Exit(prolog.Main(os.Args[1:])) },
		"pcs-capacity-resume":  func() { os.Exit(hooks.Resume(os.Args[1:])) },
		"pcs-capacity-suspend": func() { os.Exit(hooks.Suspend(os.Args[1:])) },
		"sync-pass":            syncPass,
	})
}

// syncPass is one pass of sync, which prints the report.
func syncPass() {
	cfg, err := config.Load(config.Find(""))
	if err == nil {
		var aws *ec2.Client
		if aws, err = ec2.New(context.Background(), ec2.Options{Region: cfg.Region}); err == nil {
			var report lifecycle.Report
			if _, report, err = lifecycle.Pass(context.Background(), sources.New(cfg, aws, nil)); err == nil {
				err = json.NewEncoder(os.Stdout).Encode(report)
			}
		}
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
