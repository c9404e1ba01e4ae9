package ec2

import (
	"context"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim/awssimtest"
)

// reads are the calls without an effect.
func reads(ctx context.Context, c *Client) {
	_, _ = c.AllReservations(ctx)
	_, _, _ = c.Reservations(ctx, []string{openBlock})
	_, _ = c.Offerings(ctx, OfferingQuery{InstanceType: "p5.48xlarge", Count: 1, Duration: 24 * time.Hour})
	_, _ = c.ExtensionOfferings(ctx, openBlock, 24*time.Hour)
	_, _ = c.Extensions(ctx, openBlock)
	_, _ = c.InstancesByTag(ctx, map[string][]string{"team": {"nlp"}})
	_, _ = c.VPCSubnets(ctx, []string{"subnet-0e200000000000a01"})
	_, _ = c.InstanceTypes(ctx, []string{"p5.48xlarge"})
	_, _, _ = c.LaunchTemplate(ctx, "lt-0aaaaaaaaaaaaaaa1", "1")
	_, _ = c.SecurityGroups(ctx, []string{"sg-01ab0000000000001"})
	_, _ = c.ReservationTopology(ctx, []string{openBlock})
	_, _ = c.InstanceTopology(ctx, []string{"i-01234567890abcdef"})
	_, _ = c.Zones(ctx)
	_, _ = c.Regions(ctx)
	if _, err := c.Account(ctx); err != nil {
		_, _ = c.Explain(err)
	}
}

// changes are the calls with an effect.
func changes(ctx context.Context, c *Client) {
	tags := map[string]string{capacity.TagCluster: "ml"}
	_, _ = c.EnsureLaunchTemplate(ctx, capacity.LaunchTemplateSpec{Name: "x", From: "lt-0aaaaaaaaaaaaaaa1", FromVersion: "1", InstanceType: "p5.48xlarge", EFA: capacity.EFAOnly, Tags: tags})
	_, _ = c.Launch(ctx, capacity.Launch{ClientToken: "x", LaunchTemplate: "lt-0aaaaaaaaaaaaaaa1:1", InstanceType: "p5.48xlarge", ReservationID: openBlock, Kind: capacity.CapacityBlock, Count: 1, Tags: tags})
	_, _ = c.CreateODCR(ctx, capacity.HoldOrder{Tags: tags})
	_, _ = c.Purchase(ctx, "cb-0123456789abcdef0", "Linux/UNIX", tags)
	_, _ = c.PurchaseExtension(ctx, "cb-0123456789abcdef0", openBlock)
	_ = c.Terminate(ctx, []string{"i-01234567890abcdef"})
	_ = c.CancelODCR(ctx, openBlock)
	_ = c.DeleteLaunchTemplate(ctx, "x", "ml")
}

// FuzzAnswers: the client reads or refuses every answer of EC2.
func FuzzAnswers(f *testing.F) {
	refusal := `<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>x</Message></Error></Errors></Response>`
	awssimtest.FuzzAnswers(f, noon, "text/xml", refusal,
		func(ctx context.Context, shared *awsconfig.Shared) { reads(ctx, From(shared)) },
		func(ctx context.Context, shared *awsconfig.Shared) {
			c := From(shared)
			c.shared.refill, c.shared.settle = 0, 0
			reads(ctx, c)
			changes(ctx, c)
		})
}
