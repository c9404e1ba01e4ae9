package awssim

import (
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// instanceClient sends requests below a path: the SDK replaces that of an endpoint.
type instanceClient string

func (below instanceClient) Do(r *http.Request) (*http.Response, error) {
	r.URL.Path = string(below) + r.URL.Path
	return http.DefaultClient.Do(r)
}

// The SDK's own client reads the metadata of an instance, each of its own.
func TestInstanceMetadata(t *testing.T) {
	w := newEC2World(t)
	launch := func(options *types.InstanceMetadataOptionsRequest) *imds.Client {
		t.Helper()
		out := do(t, w.ec2.RunInstances, &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ImageId: aws.String(defImage),
			InstanceType: "c7i.4xlarge", SubnetId: aws.String(defSubnetC), MetadataOptions: options,
			TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: aws.String("pcs-capacity:nodes"), Value: aws.String("gpu-[1-2]")}}}}})
		return imds.New(imds.Options{Endpoint: w.endpoint, Retryer: aws.NopRetryer{}, HTTPClient: instanceClient("/_sim/metadata/" + *out.Instances[0].InstanceId)})
	}
	get := func(c *imds.Client, path string) string {
		out, err := c.GetMetadata(t.Context(), &imds.GetMetadataInput{Path: path})
		if err != nil {
			return ""
		}
		text, _ := io.ReadAll(out.Content)
		return string(text)
	}
	tags := types.InstanceMetadataTagsStateEnabled
	with, without := launch(&types.InstanceMetadataOptionsRequest{InstanceMetadataTags: tags}), launch(nil)
	off := launch(&types.InstanceMetadataOptionsRequest{HttpEndpoint: types.InstanceMetadataEndpointStateDisabled})
	for path, want := range map[string]string{"instance-type": "c7i.4xlarge", "placement/availability-zone-id": "use2-az3", "placement/availability-zone": "us-east-2c",
		"tags/instance/pcs-capacity:nodes": "gpu-[1-2]", "tags/instance/other": "", "capacity-reservation-id": ""} {
		if got := get(with, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := get(without, "tags/instance/pcs-capacity:nodes"); got != "" {
		t.Errorf("tags in metadata are off, and are shown: %q", got)
	}
	if a, b := get(with, "instance-id"), get(without, "instance-id"); a == "" || b == "" || a == b {
		t.Errorf("ids %q and %q", a, b)
	}
	if got := get(without, "iam/info"); got != "" {
		t.Errorf("an instance without a profile has %s", got)
	}
	out := do(t, w.ec2.RunInstances, &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1), ImageId: aws.String(defImage), InstanceType: "c7i.4xlarge",
		SubnetId: aws.String(defSubnetC), IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: aws.String("head")}})
	head := imds.New(imds.Options{Endpoint: w.endpoint, Retryer: aws.NopRetryer{}, HTTPClient: instanceClient("/_sim/metadata/" + *out.Instances[0].InstanceId)})
	if info, err := head.GetIAMInfo(t.Context(), nil); err != nil || info.InstanceProfileArn != "arn:aws:iam::111122223333:instance-profile/head" {
		t.Errorf("%+v, %v", info, err)
	}
	if got := get(off, "instance-id"); got != "" {
		t.Errorf("the service is off, and answers %q", got)
	}
}
