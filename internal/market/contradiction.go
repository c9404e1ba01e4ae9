package market

import (
	"errors"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// contradicts is a Mistake if the order contradicts the offering that its id names. Unknown facts,
// as of an offering that another machine bought, are not compared. The order may name the actual or
// the requested length, since EC2 answers with blocks that are a little shorter or longer. Platform
// is the platform of the purchase; "" while that is open.
func (o PurchaseOrder) contradicts(is capacity.Offering, asked time.Duration, platform string) error {
	var wrong []error
	differs := func(flag string, said any, is string) {
		wrong = append(wrong, fmt.Errorf("--%s=%v: offering %s is %s; nothing is bought", flag, said, o.OfferingID, is))
	}
	count, servers := is.Count, is.UltraServerCount > 0 && (o.InstanceType == "" || ec2.IsUltraServer(o.InstanceType))
	what := fmt.Sprintf("%d x %s", is.Count, is.InstanceType)
	if servers {
		count, what = is.UltraServerCount, fmt.Sprintf("%d x %s", is.UltraServerCount, is.UltraServerType)
	}
	if o.InstanceType != "" && is.InstanceType != "" && o.InstanceType != is.InstanceType &&
		o.InstanceType != is.UltraServerType {
		differs("instance-type", o.InstanceType, what)
	}
	if o.Count > 0 && count > 0 && o.Count != count {
		differs("count", o.Count, what)
	}
	if o.Duration > 0 && !is.End.IsZero() && !sameLength(o.Duration, is.Duration()) && !sameLength(o.Duration, asked) {
		differs("duration", capacity.FormatDuration(o.Duration), "for "+capacity.FormatDuration(is.Duration()))
	}
	if o.Region != "" && is.Region != "" && o.Region != is.Region {
		differs("region", o.Region, "in "+is.Region)
	}
	if o.Platform != "" && platform != "" && o.Platform != platform {
		differs("platform", fmt.Sprintf("%q", o.Platform), fmt.Sprintf("bought for %q already", platform))
	}
	if len(wrong) == 0 {
		return nil
	}
	return Mistake{errors.Join(wrong...)}
}

// sameLength reports whether EC2 sells the same length for both.
func sameLength(a, b time.Duration) bool {
	x, err := ec2.Length(a)
	y, _ := ec2.Length(b) // 0 with an error
	return err == nil && x == y
}
