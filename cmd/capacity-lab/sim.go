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

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// simCmd controls a simulator that runs.
type simCmd struct {
	Clock     simClockCmd     `cmd:"" help:"Show, set, move or speed up the clock."`
	Fault     simFaultCmd     `cmd:"" help:"Make calls fail."`
	Faults    simFaultsCmd    `cmd:"" help:"List or clear the faults."`
	Ledger    simLedgerCmd    `cmd:"" help:"List the purchases that took effect."`
	Calls     simCallsCmd     `cmd:"" help:"Count the calls that were made."`
	Instances simInstancesCmd `cmd:"" help:"List the instances."`
	Lag       simLagCmd       `cmd:"" help:"Let what is created show late."`
	Limits    simLimitsCmd    `cmd:"" help:"Refuse searches for blocks as live accounts were refused."`
}

type simClockCmd struct {
	Set     string        `placeholder:"RFC3339" help:"Set it to this time."`
	Advance time.Duration `placeholder:"DURATION" help:"Move it by so much, such as 90m."`
	Speed   *float64      `placeholder:"N" help:"Simulated seconds per second; 0 stops it."`
}

// Run is called by kong.
func (cmd *simClockCmd) Run() error {
	if cmd.Set == "" && cmd.Advance == 0 && cmd.Speed == nil {
		return control(os.Stdout, http.MethodGet, "clock", nil)
	}
	change := awssim.ClockChange{Speed: cmd.Speed}
	if cmd.Set != "" {
		at, err := time.Parse(time.RFC3339, cmd.Set)
		if err != nil {
			return fmt.Errorf("--set: %w", err)
		}
		change.Set = &at
	}
	if cmd.Advance != 0 {
		d := awssim.Duration(cmd.Advance)
		change.Advance = &d
	}
	return control(os.Stdout, http.MethodPost, "clock", change)
}

type simFaultCmd struct {
	Effect    string        `arg:"" enum:"fail-before,fail-after,cut-before,cut-after,delay,silent" help:"What happens: an error before or after the effect of the call, a cut connection before or after it, a delay, or no answer at all."`
	Service   string        `enum:"ec2,pcs,imds,," default:"" help:"Only calls of this service (ec2, pcs, imds)."`
	Operation string        `placeholder:"NAME" help:"Only this operation, such as PurchaseCapacityBlock."`
	Region    string        `placeholder:"REGION" help:"Only this region. With cut-before and no operation, the region is down."`
	Code      string        `placeholder:"CODE" help:"AWS error code, such as RequestLimitExceeded (default InternalError with HTTP status 500)."`
	Message   string        `placeholder:"TEXT" help:"Message of the error."`
	Status    int           `placeholder:"N" help:"HTTP status of the error."`
	Latency   time.Duration `placeholder:"DURATION" help:"Wait so long before anything else."`
	Skip      int           `placeholder:"N" help:"Let so many matching calls pass first."`
	Count     int           `placeholder:"N" help:"Hit so many calls; default: every one until cleared."`
}

// Run is called by kong.
func (cmd *simFaultCmd) Run() error {
	return control(os.Stdout, http.MethodPost, "faults", awssim.Fault{
		Service: cmd.Service, Operation: cmd.Operation, Region: cmd.Region, Effect: awssim.Effect(cmd.Effect), Code: cmd.Code,
		Message: cmd.Message, Status: cmd.Status, Latency: awssim.Duration(cmd.Latency), Skip: cmd.Skip, Count: cmd.Count,
	})
}

type simFaultsCmd struct {
	Clear bool `help:"End every fault."`
}

// Run is called by kong.
func (cmd *simFaultsCmd) Run() error {
	return control(os.Stdout, readOrClear(cmd.Clear), "faults", nil)
}

type simLedgerCmd struct{}

// Run is called by kong.
func (*simLedgerCmd) Run() error { return control(os.Stdout, http.MethodGet, "ledger", nil) }

type simCallsCmd struct {
	Reset bool `help:"Start counting anew."`
}

// Run is called by kong.
func (cmd *simCallsCmd) Run() error { return control(os.Stdout, readOrClear(cmd.Reset), "calls", nil) }

func readOrClear(clear bool) string {
	if clear {
		return http.MethodDelete
	}
	return http.MethodGet
}

// control sends one control request to the simulator that AWS_ENDPOINT_URL names and writes its
// answer, which is JSON.
func control(out io.Writer, method, request string, body any) error {
	endpoint := strings.TrimSuffix(os.Getenv("AWS_ENDPOINT_URL"), "/")
	if endpoint == "" {
		return errors.New(`AWS_ENDPOINT_URL is not set: start "capacity-lab aws" and source what it prints`)
	}
	if u, err := url.Parse(endpoint); err != nil || !loopback(u.Hostname()) {
		return fmt.Errorf("AWS_ENDPOINT_URL is %s, which is not a simulator on this machine", endpoint)
	}
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		payload = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, endpoint+"/_sim/"+request, payload)
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

type simInstancesCmd struct {
	Region string `placeholder:"REGION" help:"Only this region."`
	JSON   bool   `name:"json" help:"Show everything that is known of them."`
}

// Run is called by kong.
func (cmd *simInstancesCmd) Run() error {
	var answer bytes.Buffer
	if err := control(&answer, http.MethodGet, "instances?region="+url.QueryEscape(cmd.Region), nil); err != nil {
		return err
	}
	if cmd.JSON {
		_, err := io.Copy(terminal.Stdout, &answer)
		return err
	}
	var instances []awssim.Instance
	if err := json.Unmarshal(answer.Bytes(), &instances); err != nil {
		return err
	}
	t := table.NewWriter()
	t.SetOutputMirror(terminal.Stdout)
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Box.PaddingLeft, t.Style().Box.PaddingRight = "", "  "
	t.SuppressTrailingSpaces()
	t.AppendHeader(table.Row{"instance", "type", "zone", "state", "capacity reservation", "lifecycle"})
	for _, i := range instances {
		t.AppendRow(table.Row{i.ID, i.Type, i.Zone, i.State, i.ReservationID, i.Lifecycle})
	}
	t.Render()
	return nil
}

type simLagCmd struct {
	Lag       time.Duration  `arg:"" help:"How long what is created, or tagged, does not show to later calls; 0s ends it."`
	Purchases *time.Duration `placeholder:"DURATION" help:"The same for blocks and extensions that are bought; default: as it is."`
}

// Run is called by kong.
func (cmd *simLagCmd) Run() error {
	lag := awssim.Duration(cmd.Lag)
	change := awssim.Lag{Instances: &lag, Templates: &lag, Tags: &lag, Reservations: &lag}
	if cmd.Purchases != nil {
		purchases := awssim.Duration(*cmd.Purchases)
		change.Purchases = &purchases
	}
	return control(os.Stdout, http.MethodPost, "lag", change)
}

type simLimitsCmd struct {
	Region       string         `placeholder:"REGION" help:"Only this region; default: every one."`
	BlockQuota   *int           `placeholder:"N" help:"EC2's quota \"Concurrent Capacity Blocks\"; with 0 every search is refused."`
	Ultraservers *bool          `negatable:"" help:"Whether the account is approved for UltraServers."`
	SearchPause  *time.Duration `placeholder:"DURATION" help:"Refuse searches that follow each other sooner."`
}

// Run is called by kong.
func (cmd *simLimitsCmd) Run() error {
	limits := awssim.Limits{Region: cmd.Region, BlockQuota: cmd.BlockQuota}
	if cmd.Ultraservers != nil {
		refused := !*cmd.Ultraservers
		limits.NoUltraServers = &refused
	}
	if cmd.SearchPause != nil {
		pause := awssim.Duration(*cmd.SearchPause)
		limits.SearchPause = &pause
	}
	return control(os.Stdout, http.MethodPost, "limits", limits)
}
