package ec2

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim/awssimtest"
)

// Things of the simulator's default scenario, in us-east-2.
const (
	openBlock   = "cr-0e2000000000000a1" // 16 × p5.48xlarge in use2-az1
	laterBlock  = "cr-0e2000000000000a2" // the same, from in 5 days on
	ultraBlock  = "cr-0e2000000000000c6" // two UltraServers
	gpuODCR     = "cr-0e200000000000a11" // 4 × g6.12xlarge
	borrowed    = "cr-0e200000000000a15" // interruptible
	sharedODCR  = "cr-0e200000000000a16" // of another account, whose us-east-2c it is
	nodes       = "lt-0e2000000000000a2" // with an image
	subnetA     = "subnet-0e200000000000a01"
	subnetB     = "subnet-0e200000000000b02"
	groupOfAll  = "sg-0e2000000000000a1"
	image       = "ami-0e200000000000a01"
	homeRegion  = "us-east-2"
	otherRegion = "us-west-2"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// newSim is a simulator whose clock stands still, and a client that talks to it.
func newSim(t *testing.T) (*awssim.Sim, *Client) {
	t.Helper()
	sim, c, _ := countedSim(t)
	return sim, c
}

// countedSim also counts the HTTP requests that arrive, by their operation, whatever becomes of them.
func countedSim(t *testing.T) (*awssim.Sim, *Client, func(operation string) int) {
	t.Helper()
	return simOf(t, nil)
}

// simOf is a countedSim of a scenario, nil for the simulator's default.
func simOf(t testing.TB, scenario *awssim.Scenario) (*awssim.Sim, *Client, func(operation string) int) {
	t.Helper()

	sim, err := awssim.New(scenario, awssim.NewClock(noon, 0))
	if err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex

	arrived := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}

		if form, err := url.ParseQuery(string(body)); err == nil {
			mu.Lock()
			arrived[form.Get("Action")]++
			mu.Unlock()
		}

		r.Body = io.NopCloser(bytes.NewReader(body))
		sim.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		_ = sim.Close()
	})

	files := t.TempDir()
	for _, kv := range append(sim.Env(), "AWS_ENDPOINT_URL="+server.URL, "AWS_CONFIG_FILE="+files+"/config",
		"AWS_SHARED_CREDENTIALS_FILE="+files+"/credentials") {
		key, value, _ := strings.Cut(kv, "=")
		t.Setenv(key, value)
	}

	c, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}

	return sim, c, func(operation string) int {
		mu.Lock()
		defer mu.Unlock()
		return arrived[operation]
	}
}

func calls(sim *awssim.Sim, operation string) int {
	n := 0
	for key, count := range sim.Calls() {
		if key.Operation == operation {
			n += count
		}
	}

	return n
}

func fault(t *testing.T, sim *awssim.Sim, f awssim.Fault) {
	t.Helper()

	if _, err := sim.AddFault(f); err != nil {
		t.Fatal(err)
	}
}

func TestRegionComesFromTheOptionThenFromTheEnvironment(t *testing.T) {
	_, c := newSim(t)
	if c.Region() != homeRegion {
		t.Errorf("region %q, want %q from AWS_REGION", c.Region(), homeRegion)
	}

	named, err := New(t.Context(), Options{Region: otherRegion})
	if err != nil || named.Region() != otherRegion {
		t.Errorf("New with a region: %q, %v", named.Region(), err)
	}

	west := c.In(otherRegion)
	if west != c.In(otherRegion) || west.In(homeRegion) != c || c.In("") != c {
		t.Error("the clients of a region are not one")
	}

	rs, err := west.FindReservations(t.Context(), ReservationQuery{})
	if err != nil || len(rs) != 1 || rs[0].Region != otherRegion {
		t.Errorf("reservations of %s: %v, %v", otherRegion, rs, err)
	}
}

func TestOffsetIsLearntFromFailedCallsToo(t *testing.T) {
	sim, c := newSim(t)
	if c.Offset() != 0 {
		t.Fatalf("offset before any call: %s", c.Offset())
	}

	fault(t, sim, awssim.Fault{Effect: awssim.FailBefore, Code: "UnauthorizedOperation"})

	if _, err := c.Regions(t.Context()); Code(err) != "UnauthorizedOperation" {
		t.Fatalf("error %v, want UnauthorizedOperation", err)
	}

	if off := c.Now().Sub(noon); off < -time.Second || off > time.Minute {
		t.Errorf("Now is %s off AWS's time", off)
	}

	if c.In(otherRegion).Offset() != c.Offset() {
		t.Error("the other region has another offset")
	}
}

// Insufficient capacity comes with status 500, but an immediate retry is useless. A launch is the caller's to repeat.
func TestNoCapacityIsNotRetriedButAServerErrorIs(t *testing.T) {
	for code, want := range map[string]int{"InsufficientInstanceCapacity": 1, "InternalError": 3} {
		sim, c, attempts := countedSim(t)
		fault(
			t,
			sim,
			awssim.Fault{Effect: awssim.FailBefore, Code: code, Status: 500, Operation: "CreateCapacityReservation"},
		)
		fault(t, sim, awssim.Fault{Effect: awssim.FailBefore, Code: code, Status: 500, Operation: "RunInstances"})

		_, hold := c.CreateODCR(t.Context(), capacity.HoldOrder{
			ClientToken:  "t",
			InstanceType: "c7i.4xlarge",
			AZID:         "use2-az1",
			Platform:     capacity.LinuxUNIX,
			Count:        1,
			End:          noon.Add(time.Hour),
			Tags:         map[string]string{capacity.TagCluster: "ml", capacity.TagHold: "jobs 1/0"},
		})
		_, launch := c.Launch(t.Context(), capacity.Launch{
			ClientToken:    "t",
			LaunchTemplate: nodes,
			InstanceType:   "c7i.4xlarge",
			SubnetID:       subnetA,
			Kind:           capacity.OnDemand,
			Count:          1,
		})

		if Code(hold) != code || Code(launch) != code {
			t.Errorf("errors %v and %v, want %s", hold, launch, code)
		}

		if n := attempts("CreateCapacityReservation"); n != want {
			t.Errorf("%s: %d attempts, want %d", code, n, want)
		}

		if n := attempts("RunInstances"); n != 1 {
			t.Errorf("%s: a launch is sent %d times", code, n)
		}
	}
}

// A body that the SDK has closed already is at its end, not broken.
func TestR3_ClosedBodiesAreNotBrokenConnections(t *testing.T) {
	_, c := newSim(t)

	var seen bool

	look := middleware.FinalizeMiddlewareFunc(
		"Look",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
			middleware.FinalizeOutput, middleware.Metadata, error,
		) {
			request := in.Request.(*smithyhttp.Request)
			built := request.Build(ctx)
			_ = built.Body.Close()
			// What net/http does to learn whether the body is longer than announced.
			if _, err := io.Copy(io.Discard, built.Body); err != nil || built.ContentLength <= 0 {
				t.Errorf(
					"a closed body of %d bytes, a %T, looks like a failed write: %v",
					built.ContentLength,
					built.Body,
					err,
				)
			}

			seen = true

			return next.HandleFinalize(ctx, in)
		},
	)

	_, err := c.api.DescribeAvailabilityZones(t.Context(), &ec2.DescribeAvailabilityZonesInput{}, func(o *ec2.Options) {
		o.APIOptions = append(
			o.APIOptions,
			func(stack *middleware.Stack) error { return stack.Finalize.Add(look, middleware.After) },
		)
	})
	if err != nil || !seen {
		t.Errorf("seen %v, error %v", seen, err)
	}
}

// reads are the calls without an effect.
func reads(ctx context.Context, c *Client) {
	_, _ = c.FindReservations(ctx, ReservationQuery{})
	_, _, _ = c.Reservations(ctx, []string{openBlock})
	_, _ = c.Offerings(ctx, OfferingQuery{InstanceType: "p5.48xlarge", Count: 1, Duration: 24 * time.Hour})
	_, _ = c.ExtensionOfferings(ctx, openBlock, 24*time.Hour)
	_, _ = c.Extensions(ctx, openBlock)
	_, _ = c.FindInstances(ctx, capacity.InstanceQuery{Tags: map[string][]string{"team": {"nlp"}}})
	_, _, _ = c.Subnets(ctx, []string{"subnet-0e200000000000a01"})
	_, _ = c.InstanceTypes(ctx, []string{"p5.48xlarge"})
	_, _, _ = c.LaunchTemplate(ctx, "lt-0aaaaaaaaaaaaaaa1", "1")
	_, _ = c.SecurityGroups(ctx, []string{"sg-01ab0000000000001"})

	_, _ = c.ReservationTopology(ctx, []string{openBlock})
	_, _ = c.InstanceTopology(ctx, []string{"i-01234567890abcdef"})
	_, _ = c.Zones(ctx)
	_, _ = c.Regions(ctx)

	if _, err := c.Account(ctx); err != nil {
		_, _ = c.Explain(err)
	}
}

// changes are the calls with an effect.
func changes(ctx context.Context, c *Client) {
	tags := map[string]string{capacity.TagCluster: "ml"}
	_, _ = c.EnsureLaunchTemplate(
		ctx,
		capacity.LaunchTemplateSpec{
			Name:         "x",
			From:         "lt-0aaaaaaaaaaaaaaa1",
			FromVersion:  "1",
			InstanceType: "p5.48xlarge",
			EFA:          capacity.EFAOnly,
			Tags:         tags,
		},
	)
	_, _ = c.Launch(
		ctx,
		capacity.Launch{
			ClientToken:    "x",
			LaunchTemplate: "lt-0aaaaaaaaaaaaaaa1:1",
			InstanceType:   "p5.48xlarge",
			ReservationID:  openBlock,
			Kind:           capacity.CapacityBlock,
			Count:          1,
			Tags:           tags,
		},
	)
	_, _ = c.CreateODCR(ctx, capacity.HoldOrder{Tags: tags})
	_, _ = c.Purchase(ctx, Buy, "cb-0123456789abcdef0", "Linux/UNIX", tags)
	_ = c.PurchaseExtension(ctx, Buy, "cb-0123456789abcdef0", openBlock)
	_ = c.Terminate(ctx, []capacity.Instance{{ID: "i-01234567890abcdef"}})
	_ = c.CancelODCR(ctx, openBlock)
	_ = c.DeleteLaunchTemplate(ctx, "x", "ml")
}

// FuzzAnswers: the client reads or refuses every answer of EC2.
func FuzzAnswers(f *testing.F) {
	refusal := `<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>x</Message></Error></Errors></Response>`
	awssimtest.FuzzAnswers(f, noon, "text/xml", refusal,
		func(ctx context.Context, shared *awsconfig.Shared) { reads(ctx, From(shared)) },
		func(ctx context.Context, shared *awsconfig.Shared) {
			c := From(shared)
			c.shared.refill, c.shared.settle = 0, 0
			reads(ctx, c)
			changes(ctx, c)
		})
}
