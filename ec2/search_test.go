package ec2

import (
	"errors"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// What live accounts were seen to answer to searches.
func TestSearchRefusals(t *testing.T) {
	zero, yes := 0, true
	for name, test := range map[string]struct {
		limits   awssim.Limits
		query    OfferingQuery
		want     error
		code     string
		mentions string
	}{
		"quota 0": {awssim.Limits{BlockQuota: &zero}, question, ErrNoBlockQuota, "CapacityBlockDescribeLimitExceeded", "L-64569A79"},
		"not sold": {awssim.Limits{}, OfferingQuery{InstanceType: "g6.12xlarge", Count: 1, Duration: day},
			ErrNotSold, "InvalidParameterValue", "'us-east-2'"},
		"UltraServers without approval": {awssim.Limits{NoUltraServers: &yes}, OfferingQuery{InstanceType: "u-trn2u-x64", Count: 1, Duration: day},
			ErrNotApproved, "UnauthorizedOperation", "account team"},
	} {
		t.Run(name, func(t *testing.T) {
			sim, c := newSim(t)
			if err := sim.SetLimits(test.limits); err != nil {
				t.Fatal(err)
			}
			_, err := c.Offerings(t.Context(), test.query)
			if !errors.Is(err, test.want) || Code(err) != test.code || !strings.Contains(err.Error(), test.mentions) {
				t.Errorf("%v", err)
			}
			if n := calls(sim, "DescribeCapacityBlockOfferings"); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}
