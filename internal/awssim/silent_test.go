package awssim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// An endpoint that takes the call and says nothing, until it is told to speak.
func TestSilence(t *testing.T) {
	w := newEC2World(t)
	w.control("POST", "faults", Fault{Effect: Silent, Operation: "DescribeSubnets"}, nil)
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := w.ec2.DescribeSubnets(short, &ec2.DescribeSubnetsInput{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer: %v", err)
	}
	do(t, w.ec2.DescribeKeyPairs, &ec2.DescribeKeyPairsInput{}) // only this operation is silent
	w.control("DELETE", "faults", nil, nil)
	do(t, w.ec2.DescribeSubnets, &ec2.DescribeSubnetsInput{})
}

// Nobody promises that a block keeps the id under which it was shown.
func TestOfferingIDsChange(t *testing.T) {
	w := worldOf(t, "new_offering_ids = true\noffering_ids_last = \"1m\"")
	first, second := w.offerings(4, 1), w.offerings(4, 1)
	if len(first) == 0 || len(first) != len(second) {
		t.Fatalf("%d and %d offerings", len(first), len(second))
	}
	for i, o := range first {
		if other := second[i]; *o.CapacityBlockOfferingId == *other.CapacityBlockOfferingId || !o.StartDate.Equal(*other.StartDate) || *o.UpfrontFee != *other.UpfrontFee {
			t.Errorf("shown as %+v, then as %+v", o, other)
		}
	}
	if _, err := w.purchase(*first[0].CapacityBlockOfferingId); err != nil {
		t.Errorf("the older id is good for a minute: %v", err)
	}
	w.sim.Clock().Advance(61 * time.Second)
	if _, err := w.purchase(*second[0].CapacityBlockOfferingId); code(err) != "InvalidCapacityBlockOfferingIdExpired" {
		t.Errorf("after a minute: %v", err)
	}
}

func TestClockOffset(t *testing.T) {
	w := worldOf(t, `clock_offset = "90s"`)
	if got := w.sim.Clock().Now().Sub(noon); got != 90*time.Second {
		t.Errorf("the clock is %s off", got)
	}
	out, err := w.ec2.DescribeRegions(t.Context(), &ec2.DescribeRegionsInput{AllRegions: aws.Bool(true)})
	if err != nil || len(out.Regions) == 0 {
		t.Fatal(err)
	}
}
