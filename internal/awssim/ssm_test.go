package awssim

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// A public parameter names an image of its region, in no account.
func TestGetParameter(t *testing.T) {
	_, endpoint := wireSim(t, string(defaultTOML))
	client := ssm.New(ssm.Options{Region: "us-east-2", BaseEndpoint: &endpoint, Credentials: dummyCredentials, Retryer: aws.NopRetryer{}, HTTPClient: loopbackClient{}})
	get := func(name string) (*ssm.GetParameterOutput, error) {
		return client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: &name})
	}
	const parameter = "/aws/service/pcs/ami/dlami-base-ubuntu2404/arm64/latest/ami-id"
	out, err := get(parameter)
	if err != nil || *out.Parameter.Value != defARMImage || *out.Parameter.ARN != "arn:aws:ssm:us-east-2::parameter"+parameter || *out.Parameter.DataType != "aws:ec2:image" {
		t.Fatalf("%+v, %v", out, err)
	}
	for name, want := range map[string]string{parameter: "", "/aws/service/pcs/ami/none": "ParameterNotFound"} {
		if _, err := get(name); code(err) != want {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := get("a b"); code(err) != "ValidationException" {
		t.Error(err)
	}
}
