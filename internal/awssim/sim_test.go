package awssim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
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
		"500 before":    {Fault{Effect: FailBefore}, "InternalError", 0},
		"500 after":     {Fault{Effect: FailAfter}, "InternalError", 1},
		"throttled":     {Fault{Effect: FailBefore, Code: "RequestLimitExceeded", Status: 503}, "RequestLimitExceeded", 0},
		"cut before":    {Fault{Effect: CutBefore}, "", 0},
		"cut after":     {Fault{Effect: CutAfter}, "", 1},
		"refused after": {Fault{Effect: FailAfter, Code: "UnauthorizedOperation", Status: 403, Message: "no"}, "UnauthorizedOperation", 1},
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

// The SDK's own retries buy three blocks when answers are lost: what a client has to guard against.
func TestRetriesBuyTwice(t *testing.T) {
	w := newEC2World(t)
	o := w.ec2.Options()
	o.Retryer = nil // the SDK's default, three attempts
	o.RetryMaxAttempts = 3
	retrying := ec2.New(o)
	offer := w.offerings(1, 1)[0].CapacityBlockOfferingId
	w.addFault(Fault{Effect: FailAfter, Operation: "PurchaseCapacityBlock", Count: 2})
	if _, err := retrying.PurchaseCapacityBlock(t.Context(), &ec2.PurchaseCapacityBlockInput{
		CapacityBlockOfferingId: offer, InstancePlatform: "Linux/UNIX"}); err != nil {
		t.Fatal(err)
	}
	if n := len(w.sim.Ledger()); n != 3 {
		t.Errorf("%d purchases, want 3", n)
	}
}

func TestDateHeaderShowsTheClock(t *testing.T) {
	w := newEC2World(t)
	w.sim.Clock().Set(time.Date(2030, 2, 3, 4, 5, 6, 0, time.UTC))
	resp, err := http.Get(w.endpoint + "/_sim/clock")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := resp.Header.Get("Date"); got != "Sun, 03 Feb 2030 04:05:06 GMT" {
		t.Errorf("Date: %s", got)
	}
}

// control sends a control request and decodes its answer.
func (w *ec2World) control(method, path string, body, into any) int {
	w.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		w.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.Context(), method, w.endpoint+"/_sim/"+path, bytes.NewReader(data))
	if err != nil {
		w.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	if into != nil {
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			w.Fatalf("%s %s: %v", method, path, err)
		}
	}
	return resp.StatusCode
}

// post sends a raw request with a credential scope.
func post(t testing.TB, endpoint, service, region string, form url.Values) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20261201/"+region+"/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
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

// Nothing that the simulator does not know passes silently.
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
		"operation":  {v("Action", "StartInstances"), "<Code>InvalidAction</Code><Message>The action StartInstances "},
		"parameter":  {v("Action", "DescribeSubnets", "SubnetID.1", "subnet-1"), "<Code>UnknownParameter</Code><Message>The parameter SubnetID.1 "},
		"list gap":   {v("Action", "DescribeSubnets", "SubnetId.2", "subnet-1"), "<Code>UnknownParameter</Code>"},
		"member":     {v("Action", "DescribeSubnets", "Filter.1.Name", "vpc-id", "Filter.1.Valu.1", "x"), "Filter.1.Valu.1"},
		"version":    {url.Values{"Action": {"DescribeSubnets"}, "Version": {"2014-01-01"}}, "<Code>NoSuchVersion</Code>"},
		"no action":  {v(), "<Code>MissingAction</Code>"},
		"bad number": {v("Action", "DescribeSubnets", "MaxResults", "many"), "<Code>InvalidParameterValue</Code>"},
		"bad time": {v("Action", "CreateCapacityReservation", "InstanceType", "t", "InstancePlatform", "p", "InstanceCount", "1", "EndDate", "soon"),
			"<Code>InvalidParameterValue</Code><Message>Value (soon) for parameter EndDate is invalid."},
		"bad value":      {v("Action", "DescribeInstances", "DryRun", "yes"), "<Code>InvalidParameterValue</Code><Message>Value (yes) for parameter DryRun "},
		"misspelt":       {v("Action", "TerminateInstances", "InstanceIds.1", "i-1"), "<Code>UnknownParameter</Code><Message>The parameter InstanceIds.1 "},
		"missing member": {v("Action", "PurchaseCapacityBlock", "InstancePlatform", "Linux/UNIX"), "<Code>MissingParameter</Code>"},
	} {
		status, body := post(t, w.endpoint, "ec2", "us-east-2", test.form)
		if status != 400 || !strings.Contains(body, test.want) {
			t.Errorf("%s: status %d, %s; want 400 with %s", name, status, body, test.want)
		}
	}
	if status, body := post(t, w.endpoint, "iam", "us-east-1", url.Values{"Action": {"GetInstanceProfile"}, "ProfileName": {"p"}}); status != 400 ||
		!strings.Contains(body, "<Code>ValidationError</Code>") || !strings.Contains(body, "ProfileName: unknown member") || !strings.Contains(body, "InstanceProfileName: required") {
		t.Errorf("of IAM: status %d, %s", status, body)
	}
	if status, body := post(t, w.endpoint, "s3", "us-east-2", v("Action", "ListBuckets")); status != 400 || !strings.Contains(body, "s3") {
		t.Errorf("another service: status %d, %s", status, body)
	}
	resp, err := http.Post(w.endpoint, "application/x-www-form-urlencoded", strings.NewReader(v("Action", "DescribeSubnets").Encode()))
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

func TestClock(t *testing.T) {
	c := NewClock(noon, 0)
	if !c.Now().Equal(noon) {
		t.Errorf("a clock that stands still shows %v, want %v", c.Now(), noon)
	}
	c.Advance(time.Hour)
	if want := noon.Add(time.Hour); !c.Now().Equal(want) {
		t.Errorf("after Advance %v, want %v", c.Now(), want)
	}
	if _, ok := c.Until(noon.Add(2 * time.Hour)); ok {
		t.Error("a clock that stands still reaches a later time")
	}
	if wait, ok := c.Until(noon); !ok || wait != 0 {
		t.Errorf("a past time is %v away, %v", wait, ok)
	}
	changed := c.Changed()
	c.SetSpeed(3.6)
	select {
	case <-changed:
	default:
		t.Error("SetSpeed did not tell of the change")
	}
	wait, ok := c.Until(c.Now().Add(time.Hour))
	if !ok || wait > 1001*time.Second || wait < 900*time.Second {
		t.Errorf("an hour at speed 3.6 is %v away, %v; want 1000 s", wait, ok)
	}
	c.SetSpeed(0)
	c.Set(noon)
	if !c.Now().Equal(noon) {
		t.Errorf("%v after Set, want %v", c.Now(), noon)
	}
}

// EC2 does not look for what cannot be one of its ids.
func TestMalformedIDs(t *testing.T) {
	w := newEC2World(t)
	for id, code := range map[string]string{"i-xyz": "InvalidInstanceID.Malformed", "cr-1": "InvalidInstanceID.Malformed", "i-0123456789abcdef0": "InvalidInstanceID.NotFound"} {
		fails(t, w.ec2.DescribeInstances, &ec2.DescribeInstancesInput{InstanceIds: []string{id}}, code)
		fails(t, w.ec2.TerminateInstances, &ec2.TerminateInstancesInput{InstanceIds: []string{id}}, code)
	}
	for id, code := range map[string]string{"default": "InvalidGroupId.Malformed", "sg-": "InvalidGroupId.Malformed", "sg-0123456789abcdef0": "InvalidGroup.NotFound"} {
		fails(t, w.ec2.DescribeSecurityGroups, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{id}}, code)
	}
	for id, code := range map[string]string{"node": "InvalidAMIID.Malformed", "ami-0123456789abcdef0": "InvalidAMIID.NotFound"} {
		fails(t, w.ec2.DescribeImages, &ec2.DescribeImagesInput{ImageIds: []string{id}}, code)
	}
	for id, code := range map[string]string{"lt-gpu": "InvalidLaunchTemplateId.Malformed", "lt-0123456789abcdef0": "InvalidLaunchTemplateId.NotFound"} {
		fails(t, w.ec2.DescribeLaunchTemplates, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{id}}, code)
	}
	for id, code := range map[string]string{"cr-gpu": "InvalidCapacityReservationId.Malformed", "cr-0123456789abcdef0": "InvalidCapacityReservationId.NotFound"} {
		fails(t, w.ec2.DescribeCapacityReservations, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{id}}, code)
	}
}
