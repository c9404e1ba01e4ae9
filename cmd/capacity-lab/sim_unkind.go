package main

import (
	"net/http"
	"os"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

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
