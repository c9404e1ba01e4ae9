package awssim

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/pcs"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim/shapes"
)

// checkShapes fails the test for every answer as PCS that differs from AWS's service model. Those as EC2 are made by it.
func checkShapes(t testing.TB, sim *Sim) {
	sim.OnResponse(func(service, operation string, status int, body []byte) {
		if service != "pcs" {
			return
		}
		if err := shapes.CheckPCS(operation, status, body); err != nil {
			t.Errorf("%v\nanswer (HTTP %d): %s", err, status, body)
		}
	})
}

// noon is when the clocks of the tests start: 30 minutes after noon UTC, so before and after an 11:30 are both near.
var noon = time.Date(2026, 12, 1, 12, 30, 0, 0, time.UTC)

// wireSim starts a simulator of a scenario in TOML on a free port, with a clock that stands still, and returns it with
// its endpoint. Every answer is checked against the service model.
func wireSim(t testing.TB, scenario string) (*Sim, string) {
	t.Helper()
	sc, err := ParseScenario(t.Name(), []byte(scenario))
	if err != nil {
		t.Fatal(err)
	}
	sim, err := New(sc, NewClock(noon, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	checkShapes(t, sim)
	endpoint, err := sim.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return sim, endpoint
}

var dummyCredentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "AKIASIMULATED", SecretAccessKey: "simulated"}, nil
})

// pcsClient is the SDK's client, without retries.
func pcsClient(endpoint string) *pcs.Client {
	return pcs.New(pcs.Options{Region: "us-east-2", BaseEndpoint: &endpoint, Credentials: dummyCredentials, Retryer: aws.NopRetryer{}, HTTPClient: loopbackClient{}})
}

// ec2Client is the SDK's client, without retries.
func ec2Client(endpoint string) *ec2.Client {
	return ec2.New(ec2.Options{Region: "us-east-2", BaseEndpoint: &endpoint, Credentials: dummyCredentials, Retryer: aws.NopRetryer{}, HTTPClient: loopbackClient{}})
}

// loopbackClient is the default HTTP client without a race of the SDK that shows on loopback, where an answer comes
// within microseconds: smithy-go closes the body of the request as soon as the answer's header is there, and a closed
// body answers io.EOF to WriteTo, which net/http may still call to see whether the body is longer than announced. It
// takes that for a failed write and cuts the connection in the middle of the answer. Without WriteTo it calls Read.
// The SDK retries such a call (aws-sdk-go-v2 issue 2737), but these clients never retry.
type loopbackClient struct{}

func (loopbackClient) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return http.DefaultClient.Do(r)
}
