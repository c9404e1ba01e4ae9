package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// simCmd controls a simulator that runs.
type simCmd struct {
	Request string   `arg:"" enum:"capacity,clock,faults,instances,lag,ledger" help:"What to show or to change."`
	Fields  []string `arg:"" help:"The change." optional:"" name:"field=value"`
	Clear   bool     `help:"End all faults."`
}

func (*simCmd) Help() string {
	return `Without FIELD=VALUE it shows what is there, as JSON.

capacity zone=us-east-2a type=g6.12xlarge count=0 region=us-east-2: what EC2 has in a zone for launches on demand and ODCRs together. With count=0 the zone is full.

clock advance=90m set=2026-03-01T09:00:00Z speed=2: moves the clock; speed is simulated seconds per second.

faults effect=EFFECT: makes calls fail until --clear. fail-before and fail-after are an error, cut-before and cut-after a lost connection, before or after the effect of the call; delay waits, silent never answers; with fail-later, PCS accepts the call, and what it begins ends as CREATE_FAILED, UPDATE_FAILED or DELETE_FAILED. service=ec2|pcs|resource-groups|imds, operation=NAME and region=REGION name the calls; skip=N lets N of them pass, count=N hits N. code=CODE, message=TEXT and status=N are the error; latency=2s comes before anything else.

lag instances=5s templates=5s tags=5s reservations=5s purchases=1m: what is made shows so much later. activation=1m: new ODCRs are pending so long; groups=5s: so is what is added to a group of them.

ledger: the purchases that took effect. instances: the instances.`
}

func (cmd *simCmd) Run() error { return cmd.send(terminal.Stdout) }

// send sends one control request to the simulator that AWS_ENDPOINT_URL names and writes its answer, which is JSON.
func (cmd *simCmd) send(out io.Writer) error {
	change := map[string]any{}
	for _, field := range cmd.Fields {
		name, value, ok := strings.Cut(field, "=")
		if !ok {
			return fmt.Errorf("%q: write NAME=VALUE", field)
		}

		change[name] = value
		if json.Valid([]byte(value)) { // a number, true or false
			change[name] = json.RawMessage(value)
		}
	}

	body, err := json.Marshal(change)
	if err != nil {
		return err
	}

	method := http.MethodGet
	switch {
	case cmd.Clear:
		method = http.MethodDelete
	case len(change) > 0:
		method = http.MethodPost
	}

	endpoint := strings.TrimSuffix(os.Getenv("AWS_ENDPOINT_URL"), "/")
	if endpoint == "" {
		return errors.New(`AWS_ENDPOINT_URL is not set: start "capacity-lab aws" and source what it prints`)
	}

	if u, err := url.Parse(endpoint); err != nil || !loopback(u.Hostname()) {
		return fmt.Errorf("AWS_ENDPOINT_URL is %s, which is not a simulator on this machine", endpoint)
	}

	req, err := http.NewRequest(method, endpoint+"/_sim/"+cmd.Request, bytes.NewReader(body))
	if err != nil {
		return err
	}

	client := http.Client{Timeout: 10 * time.Second}

	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking the simulator: %w", err)
	}
	defer resp.Body.Close()

	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("the simulator refuses: %s", strings.TrimSpace(string(text)))
	}

	_, err = io.Copy(out, resp.Body)

	return err
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
