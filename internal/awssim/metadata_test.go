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

// What the service refuses, as curl would see it.
func TestInstanceMetadataRefuses(t *testing.T) {
	w := newEC2World(t)
	out := do(t, w.ec2.RunInstances, &ec2.RunInstancesInput{MinCount: aws.Int32(2), MaxCount: aws.Int32(2), ImageId: aws.String(defImage), InstanceType: "c7i.4xlarge", SubnetId: aws.String(defSubnetC)})
	base := w.endpoint + "/_sim/metadata/" + *out.Instances[0].InstanceId + "/latest/"
	other := w.endpoint + "/_sim/metadata/" + *out.Instances[1].InstanceId + "/latest/"
	ask := func(method, url string, header ...string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	const ttl, bearer = "X-aws-ec2-metadata-token-ttl-seconds", "X-aws-ec2-metadata-token"
	status, token := ask("PUT", base+"api/token", ttl, "60")
	if status != 200 || token == "" {
		t.Fatalf("token: %d %q", status, token)
	}
	for name, c := range map[string]struct {
		method, url string
		header      []string
		want        int
	}{
		"a token":              {"GET", base + "meta-data/instance-type", []string{bearer, token}, 200},
		"no token":             {"GET", base + "meta-data/instance-type", nil, 401},
		"another's token":      {"GET", other + "meta-data/instance-type", []string{bearer, token}, 401},
		"not there":            {"GET", base + "meta-data/spot/instance-action", []string{bearer, token}, 404},
		"no such instance":     {"PUT", w.endpoint + "/_sim/metadata/i-none/latest/api/token", []string{ttl, "60"}, 404},
		"no time to live":      {"PUT", base + "api/token", nil, 400},
		"too long a life":      {"PUT", base + "api/token", []string{ttl, "21601"}, 400},
		"a proxy asks":         {"PUT", base + "api/token", []string{ttl, "60", "X-Forwarded-For", "10.0.0.1"}, 403},
		"a token by GET":       {"GET", base + "api/token", []string{ttl, "60"}, 405},
		"what is no meta-data": {"GET", base + "user-datum", []string{bearer, token}, 404},
	} {
		if got, _ := ask(c.method, c.url, c.header...); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if _, err := w.sim.AddFault(Fault{Service: "imds", Operation: "instance-type", Effect: FailBefore, Status: 503}); err != nil {
		t.Fatal(err)
	}
	if got, _ := ask("GET", base+"meta-data/instance-type", bearer, token); got != 503 {
		t.Errorf("with a fault: %d", got)
	}
}
