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
