package ec2

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

func TestOfferings(t *testing.T) {
	_, c := newSim(t)
	found, err := c.Offerings(t.Context(), OfferingQuery{InstanceType: "p5.48xlarge", Count: 4, Duration: 2 * day})
	if err != nil || len(found) == 0 {
		t.Fatalf("found %v, %v", found, err)
	}

	zones := map[string]string{"us-east-2a": "use2-az1", "us-east-2b": "use2-az2"}
	for _, o := range found {
		if o.AZID == "" || o.AZID != zones[o.AZ] {
			t.Errorf("%s lies in %q (%q)", o.ID, o.AZID, o.AZ)
		}
		// 31.464 USD per instance-hour, over the actual length.
		if per := o.Fee.PerHour(4, o.Duration()); per.String() != "31.46 USD" {
			t.Errorf("%s costs %s for %s, which is %s an hour", o.ID, o.Fee, o.Duration(), per)
		}

		if o.Count != 4 || o.Region != homeRegion {
			t.Errorf("offering %+v", o)
		}
	}

	late, err := c.Offerings(
		t.Context(),
		OfferingQuery{InstanceType: "p5.48xlarge", Count: 4, Duration: 2 * day, StartAfter: noon.Add(7 * day)},
	)
	if err != nil || len(late) == 0 || len(late) >= len(found) {
		t.Errorf("%d of %d start after a week, %v", len(late), len(found), err)
	}

	servers, err := c.Offerings(t.Context(), OfferingQuery{InstanceType: "u-trn2u-x64", Count: 2, Duration: day})
	if err != nil || len(servers) == 0 || servers[0].UltraServerCount != 2 ||
		servers[0].UltraServerType != "u-trn2u-x64" {
		t.Errorf("UltraServers: %+v, %v", servers, err)
	}
}

func buyable(t *testing.T, c *Client) capacity.Offering {
	t.Helper()

	found, err := c.Offerings(t.Context(), OfferingQuery{InstanceType: "p5.48xlarge", Count: 4, Duration: 2 * day})
	if err != nil || len(found) == 0 {
		t.Fatalf("found %v, %v", found, err)
	}

	return found[0]
}

func TestPurchase(t *testing.T) {
	sim, c := newSim(t)
	o := buyable(t, c)
	tags := map[string]string{capacity.TagPurchase: "intent-1", capacity.TagCluster: "ml"}

	r, err := c.Purchase(t.Context(), Buy, o.ID, "Linux/UNIX", tags)
	if err != nil {
		t.Fatal(err)
	}

	if r.Kind != capacity.CapacityBlock || r.State != capacity.StatePaymentPending || !r.Start.Equal(o.Start) ||
		!r.End.Equal(o.End) ||
		r.Size() != 4 {
		t.Errorf("bought %+v", r)
	}

	again, err := c.FindReservations(
		t.Context(),
		ReservationQuery{Tags: map[string]string{capacity.TagPurchase: "intent-1"}},
	)
	if err != nil || len(again) != 1 || again[0].ID != r.ID {
		t.Errorf("by its tag: %v, %v", again, err)
	}

	if n := len(sim.Ledger()); n != 1 {
		t.Errorf("%d purchases", n)
	}
}

// The answer to a purchase already says that a block has UltraServers.
func TestPurchaseOfUltraServers(t *testing.T) {
	scenario := awssim.DefaultScenario()
	scenario.HideLaunchStatus = true
	renamed(scenario, "trn2u.48xlarge", "p7.48xlarge") // a type whose name tells nothing

	_, c, _ := simOf(t, scenario)
	found, err := c.Offerings(t.Context(), OfferingQuery{InstanceType: "u-trn2u-x64", Count: 1, Duration: day})
	if err != nil || len(found) == 0 {
		t.Fatalf("found %v, %v", found, err)
	}

	if r, err := c.Purchase(t.Context(), Buy, found[0].ID, "Linux/UNIX", nil); err != nil || !r.UltraServer {
		t.Errorf("bought %+v, %v", r, err)
	}
}

// A purchase is never sent twice, however the first attempt ends.
func TestR3_PurchaseIsSentOnce(t *testing.T) {
	for name, test := range map[string]struct {
		fault   awssim.Fault
		bought  int
		refused bool
	}{
		"server error":          {awssim.Fault{Effect: awssim.FailBefore}, 0, false},
		"server error, bought":  {awssim.Fault{Effect: awssim.FailAfter}, 1, false},
		"connection cut":        {awssim.Fault{Effect: awssim.CutBefore}, 0, false},
		"connection cut, after": {awssim.Fault{Effect: awssim.CutAfter}, 1, false},
		"throttled": {
			awssim.Fault{Effect: awssim.FailBefore, Code: "RequestLimitExceeded", Status: 503},
			0,
			true,
		},
		"gone": {awssim.Fault{Effect: awssim.FailBefore, Code: "InvalidCapacityBlockOfferingIdExpired"}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			sim, c, attempts := countedSim(t)
			o := buyable(t, c)
			test.fault.Operation = "PurchaseCapacityBlock"
			fault(t, sim, test.fault)

			_, err := c.Purchase(t.Context(), Buy, o.ID, "Linux/UNIX", nil)
			if err == nil || IsRefused(err) != test.refused {
				t.Errorf("error %v, refused %v", err, IsRefused(err))
			}

			if n := attempts("PurchaseCapacityBlock"); n != 1 {
				t.Errorf("%d attempts", n)
			}

			if n := len(sim.Ledger()); n != test.bought {
				t.Errorf("%d bought, want %d", n, test.bought)
			}

			if !strings.Contains(err.Error(), o.ID) {
				t.Errorf("the error does not name the offering: %v", err)
			}
		})
	}
}

func TestExtension(t *testing.T) {
	sim, c := newSim(t)
	found, err := c.ExtensionOfferings(t.Context(), openBlock, day)
	if err != nil || len(found) == 0 {
		t.Fatalf("found %v, %v", found, err)
	}

	before, err := Reservation(t.Context(), c, openBlock)
	if err != nil {
		t.Fatal(err)
	}

	if o := found[0]; !o.Start.Equal(before.End) || !o.End.Equal(before.End.Add(day)) || o.AZID != "use2-az1" {
		t.Errorf("extension %+v of a block that ends at %s", o, before.End)
	}

	if err := c.PurchaseExtension(t.Context(), Buy, found[0].ID, openBlock); err != nil {
		t.Fatal(err)
	}

	sim.Clock().Advance(time.Hour)

	after, err := Reservation(t.Context(), c, openBlock)
	if err != nil || !after.End.Equal(before.End.Add(day)) {
		t.Errorf("the block ends at %s, %v", after.End, err)
	}

	bought, err := c.Extensions(t.Context(), openBlock)
	if err != nil || len(bought) != 1 || bought[0].OfferingID != found[0].ID ||
		bought[0].State != capacity.ExtensionPaid {
		t.Errorf("extensions %+v, %v", bought, err)
	}
}

func TestR3_ExtensionIsSentOnce(t *testing.T) {
	sim, c, attempts := countedSim(t)
	found, err := c.ExtensionOfferings(t.Context(), openBlock, day)
	if err != nil || len(found) == 0 {
		t.Fatalf("found %v, %v", found, err)
	}

	fault(t, sim, awssim.Fault{Effect: awssim.CutAfter, Operation: "PurchaseCapacityBlockExtension"})

	if err := c.PurchaseExtension(t.Context(), Buy, found[0].ID, openBlock); err == nil || IsRefused(err) {
		t.Errorf("error %v", err)
	}

	if n := attempts("PurchaseCapacityBlockExtension"); n != 1 || len(sim.Ledger()) != 1 {
		t.Errorf("%d attempts, %d bought", n, len(sim.Ledger()))
	}
}

// A dry run says which permission is missing, and buys nothing.
func TestTryPurchase(t *testing.T) {
	sim, c := newSim(t)
	o := buyable(t, c)
	extensions, err := c.ExtensionOfferings(t.Context(), openBlock, day)
	if err != nil || len(extensions) == 0 {
		t.Fatalf("found %v, %v", extensions, err)
	}

	try := func() (purchase, extension error) {
		_, purchase = c.Purchase(t.Context(), Try, o.ID, "Linux/UNIX", map[string]string{"a": "b"})
		extension = c.PurchaseExtension(t.Context(), "", extensions[0].ID, openBlock) // nor does who forgets to say
		return purchase, extension
	}
	if purchase, extension := try(); purchase != nil || extension != nil {
		t.Errorf("allowed: %v, %v", purchase, extension)
	}

	for _, operation := range []string{"PurchaseCapacityBlock", "PurchaseCapacityBlockExtension"} {
		fault(
			t,
			sim,
			awssim.Fault{Operation: operation, Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Status: 403},
		)
	}

	if purchase, extension := try(); Code(purchase) != "UnauthorizedOperation" ||
		Code(extension) != "UnauthorizedOperation" {
		t.Errorf("not allowed: %v, %v", purchase, extension)
	}

	if n := len(sim.Ledger()); n != 0 {
		t.Errorf("%d purchases", n)
	}
}

// Without a connection nothing is bought.
func TestPurchaseWithoutAConnectionIsRefused(t *testing.T) {
	_, c := newSim(t)

	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	address := nobody.Addr().String()
	_ = nobody.Close()

	c.api = newAPI(
		ec2.NewFromConfig(c.shared.Config, func(o *ec2.Options) { o.BaseEndpoint = aws.String("http://" + address) }),
	)
	if _, err := c.Purchase(t.Context(), Buy, "cb-0", "Linux/UNIX", nil); err == nil || !IsRefused(err) {
		t.Errorf("error %v", err)
	}
}

// Answers that live accounts gave to searches.
func TestSearchRefusals(t *testing.T) {
	zero, yes := 0, true
	for name, test := range map[string]struct {
		limits   awssim.Limits
		query    OfferingQuery
		code     string
		mentions string
	}{
		"quota 0": {awssim.Limits{BlockQuota: &zero}, question, "CapacityBlockDescribeLimitExceeded", "L-64569A79"},
		"not sold": {
			awssim.Limits{},
			OfferingQuery{InstanceType: "g6.12xlarge", Count: 1, Duration: day},
			"InvalidParameterValue", "'us-east-2'",
		},
		"UltraServers without approval": {
			awssim.Limits{NoUltraServers: &yes},
			OfferingQuery{InstanceType: "u-trn2u-x64", Count: 1, Duration: day},
			"UnauthorizedOperation", "account team",
		},
	} {
		t.Run(name, func(t *testing.T) {
			sim, c := newSim(t)
			if err := sim.SetLimits(test.limits); err != nil {
				t.Fatal(err)
			}

			_, err := c.Offerings(t.Context(), test.query)
			if Code(err) != test.code || !strings.Contains(err.Error(), test.mentions) {
				t.Errorf("%v", err)
			}

			if n := calls(sim, "DescribeCapacityBlockOfferings"); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}
