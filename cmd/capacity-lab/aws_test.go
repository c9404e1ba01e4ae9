package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// startAWS runs "capacity-lab aws" with arguments in this process, until the test ends, and sets the environment that
// it prints, as a shell reads it.
func startAWS(t *testing.T, args ...string) {
	t.Helper()

	var line cli

	parser, err := kong.New(&line)
	if err != nil {
		t.Fatal(err)
	}

	if _, err := parser.Parse(append([]string{"aws"}, args...)); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	read, write := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := line.AWS.serve(ctx, write)
		write.CloseWithError(err)

		served <- err
	}()

	t.Cleanup(func() {
		cancel()

		if err := <-served; err != nil {
			t.Errorf("aws: %v", err)
		}
	})

	var script strings.Builder
	for lines := bufio.NewScanner(read); strings.Count(script.String(), "\n") < 5; {
		if !lines.Scan() {
			t.Fatalf("after %q: %v", script.String(), lines.Err())
		}

		script.WriteString(lines.Text() + "\n")
	}

	out, err := exec.CommandContext(t.Context(), "env", "-i", "sh", "-c", script.String()+"env").Output()
	if err != nil {
		t.Fatalf("sh refuses %q: %v", script.String(), err)
	}

	for line := range strings.Lines(string(out)) {
		if key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "="); strings.HasPrefix(key, "AWS_") {
			t.Setenv(key, value)
		}
	}
}

// simulate runs "capacity-lab sim" and returns its answer.
func simulate(t *testing.T, request string, fields ...string) string {
	t.Helper()

	var out bytes.Buffer
	if err := (&simCmd{Request: request, Fields: fields}).send(&out); err != nil {
		t.Fatalf("%s %s: %v", request, fields, err)
	}

	return out.String()
}

func TestAWSPrintsAnEnvironmentThatWorks(t *testing.T) {
	startAWS(t, "--now", "2030-01-02T03:04:05Z", "--speed", "0")

	if got := simulate(t, "clock"); !strings.Contains(got, `"now": "2030-01-02T03:04:05Z"`) {
		t.Errorf("clock: %s", got)
	}

	if os.Getenv("AWS_REGION") != "us-east-2" || os.Getenv("AWS_DEFAULT_REGION") != "us-east-2" ||
		os.Getenv("AWS_SECRET_ACCESS_KEY") == "" {
		t.Errorf("environment: %v", os.Environ())
	}

	if got := simulate(t, "clock", "advance=1h", "speed=0"); !strings.Contains(got, "T04:04:05Z") {
		t.Errorf("clock after an hour: %s", got)
	}

	simulate(t, "faults", "effect=cut-after", "operation=PurchaseCapacityBlock", "count=1")

	if got := simulate(t, "faults"); !strings.Contains(got, "PurchaseCapacityBlock") {
		t.Errorf("faults: %s", got)
	}

	full := []string{"zone=us-east-2a", "type=g6.12xlarge", "count=0"}
	if got := simulate(t, "capacity", full...); !regexp.MustCompile(
		`"us-east-2a",\s+"type": "g6.12xlarge",\s+"count": 0,`).MatchString(got) || got != simulate(t, "capacity") {
		t.Errorf("capacity: %s", got)
	}

	// Every request shows something without fields.
	for request, want := range map[string]string{"ledger": "[]\n", "instances": "[]\n", "lag": "{}\n"} {
		if got := simulate(t, request); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}

	for field, want := range map[string]string{
		"effect=explode": "fail-before",
		"colour=1":       "colour",
		"effect":         "NAME=VALUE",
	} {
		if err := (&simCmd{Request: "faults", Fields: []string{field}}).send(io.Discard); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", field, err, want)
		}
	}
}

func TestAWSRefusals(t *testing.T) {
	for want, cmd := range map[string]*awsCmd{
		"negative":    {Speed: -1},
		"unknown key": {Scenario: scenarioFile(t, "colour = 1\n")},
	} {
		if err := cmd.serve(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cmd, err, want)
		}
	}
}

func scenarioFile(t *testing.T, text string) string {
	path := t.TempDir() + "/world.toml"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}

// The control commands never talk to AWS.
func TestControlOnlyOnThisMachine(t *testing.T) {
	for endpoint, want := range map[string]string{
		"":                                    "not set",
		"https://ec2.us-east-2.amazonaws.com": "not a simulator",
		"http://192.0.2.1:80":                 "not a simulator",
	} {
		t.Setenv("AWS_ENDPOINT_URL", endpoint)

		if err := (&simCmd{Request: "clock"}).send(io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("AWS_ENDPOINT_URL=%q: %v, want %q", endpoint, err, want)
		}
	}
}

// An answer that cannot be written is an error.
func TestOutputThatCannotBeWritten(t *testing.T) {
	startAWS(t)

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()

	for _, args := range [][]string{{"sim", "instances"}, {"sim", "clock", "advance=1m"}} {
		var said strings.Builder

		c := exec.CommandContext(t.Context(), labProgram, args...)
		c.Stdout, c.Stderr = full, &said
		if err := c.Run(); err == nil || !strings.Contains(said.String(), "no space left on device") {
			t.Errorf("%s: %v: %s", args, err, said.String())
		}
	}
}

// A mistake in the arguments is a line, with status 2.
func TestMistakesInTheArguments(t *testing.T) {
	for _, args := range [][]string{{"--no"}, {"up", "--no"}, {"sim", "no"}} {
		if status := run(args); status != 2 {
			t.Errorf("%q: exit status %d", args, status)
		}
	}
}
