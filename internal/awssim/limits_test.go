package awssim

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

func TestSearchLimits(t *testing.T) {
	w := newEC2World(t)
	ask := func(kind string) *ec2.DescribeCapacityBlockOfferingsInput {
		return &ec2.DescribeCapacityBlockOfferingsInput{InstanceType: aws.String(kind), InstanceCount: aws.Int32(1), CapacityDurationHours: aws.Int32(24)}
	}
	fails(t, w.ec2.DescribeCapacityBlockOfferings, ask("g6.12xlarge"), "InvalidParameterValue") // on demand only
	fails(t, w.region("eu-west-1").DescribeCapacityBlockOfferings, ask("p5.48xlarge"), "InvalidParameterValue")
	do(t, w.ec2.DescribeCapacityBlockOfferings, ask("p5.48xlarge"))

	late := ask("p5.48xlarge")
	late.StartDateRange = aws.Time(noon.Add(-time.Second))
	fails(t, w.ec2.DescribeCapacityBlockOfferings, late, "InvalidParameterValue")
	late.StartDateRange, late.EndDateRange = aws.Time(noon.Add(48*time.Hour)), aws.Time(noon.Add(24*time.Hour))
	fails(t, w.ec2.DescribeCapacityBlockOfferings, late, "InvalidParameterValue")

	w.control("POST", "limits", json.RawMessage(`{"search_pause": "1s"}`), nil)
	do(t, w.region("us-west-2").DescribeCapacityBlockOfferings, ask("p5.48xlarge"))
	fails(t, w.region("us-west-2").DescribeCapacityBlockOfferings, ask("p5.48xlarge"), "CapacityBlockDescribeLimitExceeded")
	w.sim.Clock().Advance(time.Second)
	do(t, w.region("us-west-2").DescribeCapacityBlockOfferings, ask("p5.48xlarge"))

	w.control("POST", "limits", json.RawMessage(`{"region": "us-east-2", "block_quota": 0, "no_ultraservers": true, "search_pause": "0s"}`), nil)
	fails(t, w.ec2.DescribeCapacityBlockOfferings, ask("p5.48xlarge"), "CapacityBlockDescribeLimitExceeded")
	w.control("POST", "limits", json.RawMessage(`{"region": "us-east-2", "block_quota": 1}`), nil)
	servers := &ec2.DescribeCapacityBlockOfferingsInput{UltraserverType: aws.String("u-trn2u-x64"), UltraserverCount: aws.Int32(1), CapacityDurationHours: aws.Int32(24)}
	fails(t, w.ec2.DescribeCapacityBlockOfferings, servers, "UnauthorizedOperation")
	if err := w.sim.SetLimits(Limits{Region: "mars"}); err == nil {
		t.Error("a region that is not there has limits")
	}
}
