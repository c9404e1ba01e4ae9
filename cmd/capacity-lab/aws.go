package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// awsCmd serves the simulated AWS account alone.
type awsCmd struct {
	Addr     string    `default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Loopback address to listen on; port 0 takes a free one (${default})."`
	Scenario string    `type:"existingfile" placeholder:"FILE" help:"Scenario of the AWS account; default: the built-in one."`
	Now      time.Time `format:"2006-01-02T15:04:05Z07:00" placeholder:"RFC3339" help:"Time at which the simulated clock starts; default: now."`
	Speed    float64   `default:"1" placeholder:"N" help:"Simulated seconds per second; 0 stands still (${default})."`
	quirks   `embed:""`
}

// Help is shown by --help.
func (*awsCmd) Help() string {
	return `Prints shell "export" lines once it listens, and serves until it is interrupted:

  capacity-lab aws >lab.env & until [ -s lab.env ]; do sleep 0.1; done
  . ./lab.env
  aws ec2 describe-capacity-reservations

Nothing leaves this machine and nothing costs money. "capacity-lab sim" changes the clock and makes calls fail.`
}

// Run is called by kong.
func (cmd *awsCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cmd.serve(ctx, os.Stdout)
}

// serve runs the simulator until ctx is done, and writes the export lines to out once it listens.
func (cmd *awsCmd) serve(ctx context.Context, out io.Writer) error {
	if cmd.Speed < 0 {
		return fmt.Errorf("--speed %v: it cannot be negative", cmd.Speed)
	}
	scenario := awssim.DefaultScenario()
	if cmd.Scenario != "" {
		var err error
		if scenario, err = awssim.LoadScenario(cmd.Scenario); err != nil {
			return err
		}
	}
	cmd.quirks.on(scenario)
	sim, err := awssim.New(scenario, awssim.NewClock(cmd.Now, cmd.Speed))
	if err != nil {
		return err
	}
	defer sim.Close()
	if _, err := sim.Listen(cmd.Addr); err != nil {
		return err
	}
	if _, err := io.WriteString(out, exports(sim.Env())); err != nil {
		return fmt.Errorf("writing the environment: %w", err)
	}
	<-ctx.Done()
	return nil
}

// exports are KEY=value pairs as lines that a POSIX shell can source.
func exports(env []string) string {
	var b strings.Builder
	for _, variable := range env {
		key, value, _ := strings.Cut(variable, "=")
		fmt.Fprintf(&b, "export %s=%s\n", key, shellQuote(value))
	}
	return b.String()
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// quirks are flags that make simulated AWS less kind than its scenario.
type quirks struct {
	Lag         time.Duration `placeholder:"DURATION" help:"What is created, or tagged, shows to later calls after so long only."`
	PurchaseLag time.Duration `placeholder:"DURATION" help:"The same for blocks and extensions that are bought."`
	ClockOffset time.Duration `placeholder:"DURATION" help:"How far its clock is before that of this machine."`
}

// on lays them over a scenario.
func (q quirks) on(sc *awssim.Scenario) {
	if lag := awssim.Duration(q.Lag); lag > 0 {
		sc.Lag.Instances, sc.Lag.Templates, sc.Lag.Tags, sc.Lag.Reservations = &lag, &lag, &lag, &lag
	}
	if lag := awssim.Duration(q.PurchaseLag); lag > 0 {
		sc.Lag.Purchases = &lag
	}
	sc.ClockOffset += awssim.Duration(q.ClockOffset)
}

// flags are the set flags, for another call of this program.
func (q quirks) flags() []string {
	var all []string
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"--lag", q.Lag}, {"--purchase-lag", q.PurchaseLag}, {"--clock-offset", q.ClockOffset}} {
		if f.value != 0 {
			all = append(all, f.name, f.value.String())
		}
	}
	return all
}
