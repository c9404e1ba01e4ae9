package market

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// sameBlock reports whether two offerings are of one block, whatever their ids and fees:
// the ids of offerings expire soon, and EC2 then shows the block under another one.
func sameBlock(a, b capacity.Offering) bool {
	return a.Region == b.Region && a.AZID == b.AZID && soldType(a) == soldType(b) && SoldCount(a) == SoldCount(b) &&
		!a.Start.IsZero() && a.Start.Equal(b.Start) && a.End.Equal(b.End)
}

// soldType is the type by which EC2 sells a block: of its UltraServers, else of its instances.
func soldType(o capacity.Offering) string { return cmp.Or(o.UltraServerType, o.InstanceType) }

// SoldCount is the number of UltraServers of a block, else of its instances.
func SoldCount(o capacity.Offering) int { return cmp.Or(o.UltraServerCount, o.Count) }

// findOffering asks EC2 anew, for today's fee. If EC2 no longer has the id, another offering of the
// same block stands for it: of several, one with the same fee, else the cheapest.
func findOffering(ctx context.Context, aws *ec2.Client, q ec2.OfferingQuery, id string,
	known capacity.Offering) (capacity.Offering, error) {
	found, err := aws.Offerings(ctx, q)
	if err != nil {
		return capacity.Offering{}, err
	}
	o, there := pickOffering(found, id, known)
	if !there {
		return o, fmt.Errorf("offering %s: EC2 no longer has it for sale in %s; run `pcs-capacity offerings` again, and use the whole command that it prints",
			id, aws.Region())
	}
	return o, nil
}

// pickOffering is findOffering's choice among the offerings.
func pickOffering(found []capacity.Offering, id string, known capacity.Offering) (capacity.Offering, bool) {
	if i := slices.IndexFunc(found, func(o capacity.Offering) bool { return o.ID == id }); i >= 0 {
		return found[i], true
	}
	same := slices.DeleteFunc(found, func(o capacity.Offering) bool { return !sameBlock(o, known) })
	if len(same) == 0 {
		return capacity.Offering{}, false
	}
	if i := slices.IndexFunc(same, func(o capacity.Offering) bool { return o.Fee == known.Fee }); i >= 0 {
		return same[i], true
	}
	return slices.MinFunc(same, func(x, y capacity.Offering) int { return compareFees(x.Fee, y.Fee) }), true
}

// afterTyping finds an offering once more after somebody has typed its fee: its id may have expired
// meanwhile. The typed fee accepts that very fee.
func (d *deal) afterTyping(ctx context.Context, q ec2.OfferingQuery,
	typed capacity.Offering) (capacity.Offering, error) {
	now, err := findOffering(ctx, d.EC2, q, typed.ID, typed)
	switch {
	case err != nil:
		return now, fmt.Errorf("%w; nothing was bought", err)
	case now.Fee != typed.Fee:
		return now, fmt.Errorf("offering %s: its fee is %s now, not the %s that you typed; nothing was bought", now.ID,
			now.Fee, typed.Fee)
	case now.ID != typed.ID:
		d.Customer.Say("EC2 has %s under the id %s now, for the same fee.", typed.ID, now.ID)
	}
	return now, nil
}
