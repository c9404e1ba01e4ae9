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

	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

// awsCmd serves the simulated AWS account alone.
type awsCmd struct {
	Scenario string    `type:"existingfile" placeholder:"FILE" help:"Scenario of the AWS account; default: the built-in one."`
	Now      time.Time `placeholder:"RFC3339" help:"Time at which the simulated clock starts; default: now." format:"2006-01-02T15:04:05Z07:00"`
	Speed    float64   `placeholder:"N" help:"Simulated seconds per second; 0 stands still (${default})." default:"1"`
}

func (*awsCmd) Help() string {
	return `Prints shell "export" lines once it listens, and serves until it is interrupted:

  capacity-lab aws >lab.env & until [ -s lab.env ]; do sleep 0.1; done
  . ./lab.env
  aws ec2 describe-capacity-reservations

Nothing leaves this machine and nothing costs money. "capacity-lab sim" changes the clock and makes calls fail.`
}

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

		scenario, err = awssim.LoadScenario(cmd.Scenario)
		if err != nil {
			return err
		}
	}

	sim, err := awssim.New(scenario, awssim.NewClock(cmd.Now, cmd.Speed))
	if err != nil {
		return err
	}
	defer sim.Close()

	if _, err := sim.Listen("127.0.0.1:0"); err != nil {
		return err
	}

	if _, err := io.WriteString(out, exports(sim.Env())); err != nil {
		return fmt.Errorf("writing the environment: %w", err)
	}

	<-ctx.Done()

	return nil
}

// exports returns KEY=value pairs as lines that a POSIX shell can source.
func exports(env []string) string {
	var b strings.Builder
	for _, variable := range env {
		key, value, _ := strings.Cut(variable, "=")
		fmt.Fprintf(&b, "export %s=%s\n", key, shellQuote(value))
	}

	return b.String()
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
