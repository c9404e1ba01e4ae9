package awssim

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// addFault fails the test if the fault is refused.
func (w *ec2World) addFault(f Fault) {
	w.Helper()

	if _, err := w.sim.AddFault(f); err != nil {
		w.Fatal(err)
	}
}

// The same purchase fails at each point; the ledger tells whether it took effect.
func TestFaultsAroundAPurchase(t *testing.T) {
	for name, test := range map[string]struct {
		fault  Fault
		code   string // "" for a cut connection
		bought int
	}{
		"500 before": {Fault{Effect: FailBefore}, "InternalError", 0},
		"500 after":  {Fault{Effect: FailAfter}, "InternalError", 1},
		"throttled": {
			Fault{Effect: FailBefore, Code: "RequestLimitExceeded", Status: 503},
			"RequestLimitExceeded",
			0,
		},
		"cut before": {Fault{Effect: CutBefore}, "", 0},
		"cut after":  {Fault{Effect: CutAfter}, "", 1},
		"refused after": {
			Fault{Effect: FailAfter, Code: "UnauthorizedOperation", Status: 403, Message: "no"},
			"UnauthorizedOperation",
			1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEC2World(t)
			offer := *w.offerings(1, 1)[0].CapacityBlockOfferingId
			test.fault.Operation, test.fault.Count = "PurchaseCapacityBlock", 1
			w.addFault(test.fault)

			_, err := w.purchase(offer)
			if err == nil {
				t.Fatal("the purchase succeeded")
			}

			if got := code(err); test.code != "" && got != test.code {
				t.Errorf("error code %q, want %q", got, test.code)
			}

			if n := len(w.sim.Ledger()); n != test.bought {
				t.Errorf("%d purchases took effect, want %d", n, test.bought)
			}

			if _, err := w.purchase(offer); err != nil {
				t.Errorf("after the one fault: %v", err)
			}
		})
	}
}

// post sends a raw request with a credential scope.
func post(t testing.TB, endpoint, service, region string, form url.Values) (int, string) {
	t.Helper()

	req, err := http.NewRequestWithContext(t.Context(), "POST", endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}

	req.Header.Set(
		"Authorization",
		"AWS4-HMAC-SHA256 Credential=AKIA/20261201/"+region+"/"+service+
			"/aws4_request, SignedHeaders=host, Signature=0",
	)

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}

	return resp.StatusCode, string(body)
}

// The simulator refuses everything that it does not know.
func TestUnknownRequests(t *testing.T) {
	w := newEC2World(t)
	v := func(pairs ...string) url.Values {
		form := url.Values{"Version": {ec2Version}}
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}

		return form
	}
	for name, test := range map[string]struct {
		form url.Values
		want string // in the answer
	}{
		"operation": {v("Action", "StartInstances"), "<Code>InvalidAction</Code><Message>The action StartInstances "},
		"parameter": {
			v("Action", "DescribeSubnets", "SubnetID.1", "subnet-1"),
			"<Code>UnknownParameter</Code><Message>The parameter SubnetID.1 ",
		},
		"list gap": {v("Action", "DescribeSubnets", "SubnetId.2", "subnet-1"), "<Code>UnknownParameter</Code>"},
		"member": {
			v("Action", "DescribeSubnets", "Filter.1.Name", "vpc-id", "Filter.1.Valu.1", "x"),
			"Filter.1.Valu.1",
		},
		"version": {
			url.Values{"Action": {"DescribeSubnets"}, "Version": {"2014-01-01"}},
			"<Code>NoSuchVersion</Code>",
		},
		"no action":  {v(), "<Code>MissingAction</Code>"},
		"bad number": {v("Action", "DescribeSubnets", "MaxResults", "many"), "<Code>InvalidParameterValue</Code>"},
		"bad time": {
			v("Action", "CreateCapacityReservation", "InstanceType", "t", "InstancePlatform", "p", "InstanceCount",
				"1", "EndDate", "soon"),
			"<Code>InvalidParameterValue</Code><Message>Value (soon) for parameter EndDate is invalid.",
		},
		"bad value": {
			v("Action", "DescribeInstances", "DryRun", "yes"),
			"<Code>InvalidParameterValue</Code><Message>Value (yes) for parameter DryRun ",
		},
		"misspelt": {
			v("Action", "TerminateInstances", "InstanceIds.1", "i-1"),
			"<Code>UnknownParameter</Code><Message>The parameter InstanceIds.1 ",
		},
		"missing member": {
			v("Action", "PurchaseCapacityBlock", "InstancePlatform", "Linux/UNIX"),
			"<Code>MissingParameter</Code>",
		},
	} {
		status, body := post(t, w.endpoint, "ec2", "us-east-2", test.form)
		if status != 400 || !strings.Contains(body, test.want) {
			t.Errorf("%s: status %d, %s; want 400 with %s", name, status, body, test.want)
		}
	}

	if status, body := post(t, w.endpoint, "s3", "us-east-2", v("Action", "ListBuckets")); status != 400 ||
		!strings.Contains(body, "s3") {
		t.Errorf("another service: status %d, %s", status, body)
	}

	resp, err := http.Post(
		w.endpoint,
		"application/x-www-form-urlencoded",
		strings.NewReader(v("Action", "DescribeSubnets").Encode()),
	)
	if err != nil {
		t.Fatal(err)
	}

	resp.Body.Close()

	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("no credentials: status %d", resp.StatusCode)
	}
}

func TestListenRefusesOtherAddresses(t *testing.T) {
	w := newEC2World(t)
	for _, addr := range []string{"0.0.0.0:0", ":0", "10.0.0.1:80", "example.com:80", "nonsense"} {
		if url, err := w.sim.Listen(addr); err == nil {
			t.Errorf("listens on %s for %q", url, addr)
		}
	}
}

// An endpoint that takes the call and says nothing, until it is told to speak.
func TestSilence(t *testing.T) {
	w := newEC2World(t)
	w.addFault(Fault{Effect: Silent, Operation: "DescribeSubnets"})

	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()

	if _, err := w.ec2.DescribeSubnets(short, &ec2.DescribeSubnetsInput{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer: %v", err)
	}

	do(t, w.ec2.DescribeRouteTables, &ec2.DescribeRouteTablesInput{}) // only this operation is silent
	w.sim.ClearFaults()
	do(t, w.ec2.DescribeSubnets, &ec2.DescribeSubnetsInput{})
}

// EC2 does not look for what cannot be one of its ids.
func TestMalformedIDs(t *testing.T) {
	w := newEC2World(t)
	for id, code := range map[string]string{
		"i-xyz":               "InvalidInstanceID.Malformed",
		"cr-1":                "InvalidInstanceID.Malformed",
		"i-0123456789abcdef0": "InvalidInstanceID.NotFound",
	} {
		fails(t, w.ec2.DescribeInstances, &ec2.DescribeInstancesInput{InstanceIds: []string{id}}, code)
		fails(t, w.ec2.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: []string{id}}, code)
	}

	for id, code := range map[string]string{
		"default":              "InvalidGroupId.Malformed",
		"sg-":                  "InvalidGroupId.Malformed",
		"sg-0123456789abcdef0": "InvalidGroup.NotFound",
	} {
		fails(t, w.ec2.DescribeSecurityGroups, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{id}}, code)
	}

	for id, code := range map[string]string{
		"node":                  "InvalidAMIID.Malformed",
		"ami-0123456789abcdef0": "InvalidAMIID.NotFound",
	} {
		fails(t, w.ec2.DescribeImages, &ec2.DescribeImagesInput{ImageIds: []string{id}}, code)
	}

	for id, code := range map[string]string{
		"lt-gpu":               "InvalidLaunchTemplateId.Malformed",
		"lt-0123456789abcdef0": "InvalidLaunchTemplateId.NotFound",
	} {
		fails(
			t,
			w.ec2.DescribeLaunchTemplates,
			&ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{id}},
			code,
		)
	}

	for id, code := range map[string]string{
		"cr-gpu":               "InvalidCapacityReservationId.Malformed",
		"cr-0123456789abcdef0": "InvalidCapacityReservationId.NotFound",
	} {
		fails(
			t,
			w.ec2.DescribeCapacityReservations,
			&ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{id}},
			code,
		)
	}
}
