package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// market is one question about blocks for sale, asked in several regions.
type market struct {
	search *searcher
	query  ec2.OfferingQuery
	// max is the most that a block may cost; nil for no bound.
	max *capacity.Money
}

// regionMarket is the answer of one region.
type regionMarket struct {
	region string
	found  []capacity.Offering
	types  map[string]ec2.InstanceType
	// unsold says why the type cannot be bought in this region at all; "" if it can.
	unsold string
}

// ask asks one region: first whether it sells the type at all, as that is no scarce call.
func (m market) ask(ctx context.Context, aws *ec2.Client) (regionMarket, error) {
	answer := regionMarket{region: aws.Region()}
	var typesErr error
	if !ec2.IsUltraServer(m.query.InstanceType) {
		answer.types, typesErr = aws.InstanceTypes(ctx, []string{m.query.InstanceType})
		if typesErr == nil {
			if answer.unsold = unsold(ctx, aws, m.query.InstanceType, answer.types); answer.unsold != "" {
				return answer, nil
			}
		}
	}
	var err error
	answer.found, err = m.search.offerings(ctx, aws, m.query)
	if errors.Is(err, ec2.ErrNotSold) {
		answer.unsold = reason(err)
		return answer, nil
	}
	if err != nil {
		return regionMarket{}, err // it is not known to have nothing
	}
	if ec2.IsUltraServer(m.query.InstanceType) && len(answer.found) > 0 {
		answer.types, typesErr = aws.InstanceTypes(ctx, []string{answer.found[0].InstanceType})
	}
	if typesErr != nil {
		slog.Warn("prices per GPU are not known", "region", aws.Region(), "error", typesErr)
	}
	return answer, nil
}

// unsold says why EC2 sells no block of a type in a region; "" if it does.
func unsold(ctx context.Context, aws *ec2.Client, instanceType string, types map[string]ec2.InstanceType) string {
	about, known := types[instanceType]
	if known && slices.Contains(about.UsageClasses, ec2.BlockUsage) {
		return ""
	}
	why := fmt.Sprintf("EC2 has no instance type %s in %s", instanceType, aws.Region())
	if known {
		why = fmt.Sprintf("EC2 does not sell %s as a Capacity Block in %s", instanceType, aws.Region())
	}
	sold, err := aws.BlockTypes(ctx)
	switch {
	case err != nil:
		return why + "."
	case len(sold) == 0:
		return why + ", nor any other type as a Capacity Block."
	}
	names := make([]string, 0, len(sold))
	for name := range sold {
		names = append(names, name)
	}
	slices.Sort(names)
	return why + ". Sold there: " + strings.Join(names, ", ") + "."
}

// affordable are the offerings of all regions at or under --max-price.
func (m market) affordable(answers []regionMarket) []capacity.Offering {
	var all []capacity.Offering
	for _, a := range answers {
		all = append(all, m.withinPrice(a.found)...)
	}
	return all
}

func (m market) withinPrice(found []capacity.Offering) []capacity.Offering {
	if m.max == nil {
		return found
	}
	var kept []capacity.Offering
	for _, o := range found {
		if o.Fee.Cmp(*m.max) <= 0 {
			kept = append(kept, o)
		}
	}
	return kept
}

// gpus of one instance of an offering.
func (m market) gpus(answers []regionMarket, o capacity.Offering) int {
	for _, a := range answers {
		if a.region == o.Region {
			return a.types[o.InstanceType].GPUs
		}
	}
	return 0
}

// alternatives asks the regions that sell the type what they have instead.
func (m market) alternatives(ctx context.Context, progress *terminal.Slow, aws *ec2.Client, answers []regionMarket) ([]alternative, error) {
	var regions []string
	for _, a := range answers {
		if a.region != "" && a.unsold == "" {
			regions = append(regions, a.region)
		}
	}
	if len(regions) == 0 {
		return []alternative{}, nil
	}
	found, _, err := askRegions(ctx, progress, aws, regions, func(ctx context.Context, aws *ec2.Client) ([]alternative, error) {
		return m.search.alternatives(ctx, aws, m.query, m.withinPrice)
	})
	return pickAlternatives(slices.Concat(found...), m.query.Duration), err
}

// remember keeps the question for purchase, which must ask it again: EC2 cannot look an
// offering up by its id.
func (m market) remember(aws *ec2.Client, cfg *maybeConfig, found []capacity.Offering) {
	q := m.query
	err := state.Dir(cfg.StateDir).WriteOfferings(state.Offerings{InstanceType: q.InstanceType, Count: q.Count,
		Duration: capacity.Duration{Duration: q.Duration}, StartAfter: q.StartAfter, EndBy: q.EndBy, Region: aws.Region(), At: aws.Now(), Found: found})
	if err != nil {
		slog.Info("the offerings are not remembered, so purchase needs --instance-type, --count and --duration", "error", err)
	}
}

// explain says why nothing is shown.
func (m market) explain(t *terminal.Terminal, answers []regionMarket) {
	var asked []string
	var dear []capacity.Offering
	for _, a := range answers {
		switch {
		case a.unsold != "":
			t.Say("%s", a.unsold)
		case a.region != "":
			asked = append(asked, a.region)
			dear = append(dear, a.found...)
		}
	}
	if len(asked) == 0 {
		return
	}
	if len(dear) > 0 {
		least := slices.MinFunc(dear, func(a, b capacity.Offering) int { return a.Fee.Cmp(b.Fee) })
		t.Say("The cheapest block of %d x %s for about %s costs %s %s, more than --max-price %s.", m.query.Count, m.query.InstanceType,
			lasts(m.query.Duration), least.Fee, least.Currency, m.max)
		return
	}
	t.Say("EC2 has no block of %d x %s for %s for sale in %s%s.", m.query.Count, m.query.InstanceType, lasts(m.query.Duration),
		strings.Join(asked, ", "), m.window(t))
}

func (m market) window(t *terminal.Terminal) string {
	text := ""
	if !m.query.StartAfter.IsZero() {
		text += " from " + t.Time(m.query.StartAfter)
	}
	if !m.query.EndBy.IsZero() {
		text += " until " + t.Time(m.query.EndBy)
	}
	return text
}
