package main

import (
	"encoding/json"
	"errors"
	"fmt"
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

type simPolicyCmd struct {
	File      string `arg:"" optional:"" type:"existingfile" help:"IAM policy document (JSON)."`
	AccessKey string `placeholder:"KEY" help:"Only for calls with this access key; default: every one without a policy of its own."`
	Clear     bool   `help:"Allow everything to everyone again."`
}

// Run is called by kong.
func (cmd *simPolicyCmd) Run() error {
	if cmd.Clear == (cmd.File != "") {
		return errors.New("name a policy document, or --clear")
	}
	if cmd.Clear {
		return control(os.Stdout, http.MethodDelete, "policy", nil)
	}
	document, err := os.ReadFile(cmd.File)
	if err != nil {
		return err
	}
	if !json.Valid(document) {
		return fmt.Errorf("%s is not JSON", cmd.File)
	}
	return control(os.Stdout, http.MethodPost, "policy", awssim.AttachedPolicy{AccessKey: cmd.AccessKey, Document: document})
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

type simOtherwiseCmd struct {
	MixedScaling    bool `help:"It takes a minimum between 0 and the maximum."`
	AnySize         bool `help:"It takes a maximum above the block's size."`
	LateChecks      bool `help:"It takes node groups that do not suit, which end in CREATE_FAILED."`
	OneAtATime      bool `name:"one-at-a-time" help:"It changes one node group or queue of a cluster at a time."`
	KeepsScheduled  bool `help:"It keeps the Slurm reservation GROUP-scheduled after the start."`
	DropsForeign    bool `help:"It deletes Slurm reservations of others."`
	ReplacesDrained bool `help:"It replaces the instances of drained nodes."`
	// In the order of awssim.Otherwise.
	RelaunchesFenced bool `help:"It ends static nodes in maintenance and launches them anew, over and over."`

	NoBlocks       bool `help:"EC2: the quota for blocks is 0."`
	PlainPurchases bool `help:"EC2: a purchase of a block takes no tags."`
	OneInterface   bool `help:"EC2: a launch has one network interface."`
	LongHolds      bool `help:"EC2: an ODCR lasts an hour or more."`
	NoTopology     bool `help:"EC2: the topology of a new ODCR is an error."`
	SlowHolds      bool `help:"EC2: a new ODCR takes no launch for a minute."`
	SlowTags       bool `help:"EC2: a new instance is not found by its tags for a minute."`
	OtherFullCode  bool `help:"EC2: a full ODCR is told as want of capacity in the zone."`
	TakesMore      bool `help:"EC2: what a full ODCR has no place for runs on demand."`
	TokensShow     bool `help:"EC2: the token of a terminated instance answers that instance."`
	TokensRenew    bool `help:"EC2: the token of a terminated instance launches anew."`
	SlowPlaces     bool `help:"EC2: the place of a terminated instance is not free for 6 minutes."`
	SlowCancels    bool `help:"EC2: a cancelled ODCR shows as active for a minute."`
}

// Help is shown below the flags.
func (simOtherwiseCmd) Help() string {
	return "What is not named is as it was at first."
}

// Run is called by kong.
func (cmd *simOtherwiseCmd) Run() error {
	return control(os.Stdout, http.MethodPost, "otherwise", awssim.Otherwise(*cmd))
}
