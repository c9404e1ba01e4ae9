package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// NotifyCmd is about what people are told.
type NotifyCmd struct {
	Test NotifyTestCmd `cmd:"" help:"Send a test message."`
}

// NotifyTestCmd delivers one message.
type NotifyTestCmd struct{}

// Help is shown below the flags.
func (NotifyTestCmd) Help() string {
	return `Runs command of [notify] and posts to its webhook, as sync does for a notice. The exit status
is 1 if one of them fails.`
}

// Run delivers it.
func (c *NotifyTestCmd) Run(ctx context.Context, t *terminal.Terminal, cfg *config.Config) error {
	if cfg.Notify.Command == "" && cfg.Notify.Webhook == "" {
		return fmt.Errorf("[notify] of %s has no command and no webhook; add one", cfg.Path)
	}
	host, _ := os.Hostname()
	test := lifecycle.Notice{Kind: capacity.IsTest, At: time.Now().UTC().Truncate(time.Second), Message: "a test of [notify] on host " + host}
	if err := lifecycle.Notify(ctx, cfg, test); err != nil {
		return err
	}
	t.Say("Delivered.")
	return nil
}
