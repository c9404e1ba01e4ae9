package main_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

const reservations = 10_000

// regions are the 17 that are on in a new account: AWS Account Management Reference,
// "Specify which AWS Regions your account can use".
var regions = []string{
	"ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-southeast-1", "ap-southeast-2", "ca-central-1",
	"eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3", "sa-east-1", "us-east-1", "us-east-2", "us-west-1", "us-west-2",
}

// inRegion is how many reservations the i-th region has: three of them need three pages,
// the others one.
func inRegion(i int) int {
	const large, few = 2300, (reservations - 3*2300) / 14
	switch {
	case i < 3:
		return large
	case i == len(regions)-1:
		return reservations - 3*large - 13*few
	}
	return few
}

// pages is how many questions the answers need.
func pages() int {
	n := 0
	for i := range regions {
		n += (inRegion(i) + 999) / 1000
	}
	return n
}

// manyReservations is an account with 10,000 reservations in 17 regions, a third of them
// blocks, some of them shared by another account.
func manyReservations(t testing.TB) *awssim.Scenario {
	var start, end awssim.Moment
	for moment, text := range map[*awssim.Moment]string{&start: "-2d 11:30", &end: "+5d 11:30"} {
		if err := moment.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	scenario := awssim.DefaultScenario()
	scenario.Home, scenario.Regions = "us-east-2", nil
	for i, name := range regions {
		region := awssim.RegionScenario{Name: name, Zones: []awssim.ZoneScenario{{Name: name + "a", ID: fmt.Sprintf("z%d-az1", i)}}}
		for n := range inRegion(i) {
			r := awssim.ReservationScenario{ID: fmt.Sprintf("cr-%08x%09x", i, n), Type: "g6.12xlarge", Zone: name + "a", Count: 1 + n%16,
				Tags: map[string]string{"team": fmt.Sprintf("team-%d", n%20), "Name": fmt.Sprintf("training-%d", n)}}
			switch n % 6 {
			case 0, 1:
				r.Kind, r.Type, r.Start, r.End = "capacity-block", "p5.48xlarge", start, end
			case 2:
				r.Owner, r.OwnerZoneName = "444455556666", name+"c"
			}
			region.Reservations = append(region.Reservations, r)
		}
		scenario.Regions = append(scenario.Regions, region)
	}
	return scenario
}

// world is the simulator, and an environment for programs that talk to it.
type world struct {
	sim *awssim.Sim
	dir string
	env []string
}

// newWorld starts the simulator behind what between makes of it.
func newWorld(t testing.TB, between func(http.Handler) http.Handler) *world {
	sim, err := awssim.New(manyReservations(t), awssim.NewClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 0))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(between(sim.Handler()))
	dir := t.TempDir()
	t.Cleanup(func() {
		server.Close()
		_ = sim.Close()
	})
	w := &world{sim: sim, dir: dir, env: append(os.Environ(), sim.Env()...)}
	w.env = append(w.env, "AWS_ENDPOINT_URL="+server.URL, "AWS_EC2_METADATA_DISABLED=true", "HOME="+dir, "XDG_CACHE_HOME="+dir,
		"AWS_CONFIG_FILE="+dir+"/config", "AWS_SHARED_CREDENTIALS_FILE="+dir+"/credentials", "SLURM_CONF=")
	return w
}

func (w *world) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Dir = w.env, w.dir
	return cmd
}

// time runs a program to its end, with its output to nowhere.
func (w *world) time(t testing.TB, program string, args ...string) time.Duration {
	t.Helper()
	cmd := w.command(program, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, errs.Bytes())
	}
	return time.Since(began)
}

// output is what a program writes, and the most memory in bytes that it held before the
// last 64 KiB of it: a pipe holds no more, so the program is still there to be looked at.
// (The kernel's count for a child that has ended includes what this process holds.)
func (w *world) output(t testing.TB, program string, args ...string) (text []byte, held int64) {
	t.Helper()
	cmd := w.command(program, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 16<<10)
	for err == nil {
		held = max(held, mostHeld(t, cmd.Process.Pid))
		var n int
		n, err = out.Read(part)
		text = append(text, part[:n]...)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, errs.Bytes())
	}
	return text, held
}

// mostHeld is the most memory in bytes that a process has held: VmHWM of proc(5). It is 0
// for one that has ended.
func mostHeld(t testing.TB, pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	_, _ = fmt.Sscanf(rest, "%d kB", &kib) // an ended process has no such line
	return kib << 10
}
