package awsconfig

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// silentWorld has limits that are short enough for a test, and a client of a host that answers only when it is told to.
func silentWorld(t *testing.T) (*limits, *ec2.Client, func(answering bool)) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "y")

	answers := make(chan bool, 1)
	answers <- false

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does it notice that the client is gone

		answering := <-answers
		answers <- answering

		if !answering {
			<-r.Context().Done()
			return
		}

		http.Error(
			w,
			`<Response><Errors><Error><Code>Unavailable</Code></Error></Errors></Response>`,
			http.StatusBadRequest,
		)
	}))
	t.Cleanup(server.Close)

	s, err := Load(t.Context(), Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}

	s.limits.read, s.limits.change, s.limits.silent = 50*time.Millisecond, 100*time.Millisecond, 200*time.Millisecond
	client := ec2.NewFromConfig(s.Config, func(o *ec2.Options) { o.BaseEndpoint = &server.URL })

	return s.limits, client, func(answering bool) {
		<-answers

		answers <- answering
	}
}

// A host that takes the connection and says nothing is waited for once.
func TestSilentHost(t *testing.T) {
	l, client, answering := silentWorld(t)
	read := func(ctx context.Context) error {
		_, err := client.DescribeRegions(ctx, &ec2.DescribeRegionsInput{})
		return err
	}

	var silent *NoAnswer

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	err := read(ctx)
	if !errors.As(err, &silent) || silent.After != l.read || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("first call: %v", err)
	}

	if err := read(t.Context()); !errors.As(err, &silent) || !silent.WasNotSent() {
		t.Errorf("second call: %v", err)
	}

	answering(true)

	for err = read(ctx); errors.As(err, &silent); err = read(ctx) { // until it is asked again
	}

	if err == nil || ctx.Err() != nil {
		t.Errorf("the host answers again: %v", err)
	}

	answering(false)

	if _, err := client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{
		InstanceIds: []string{"i-1"},
	}); !errors.As(
		err,
		&silent,
	) ||
		silent.After != l.change {
		t.Errorf("a change: %v", err)
	}
}

// A caller's own deadline says nothing about the host; a purchase has that one only.
func TestLimitsOfTheCaller(t *testing.T) {
	l, client, _ := silentWorld(t)
	l.read = time.Minute

	var silent *NoAnswer

	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()

	if _, err := client.DescribeRegions(short, &ec2.DescribeRegionsInput{}); err == nil || errors.As(err, &silent) ||
		l.isSilent("127.0.0.1") {
		t.Errorf("a caller in haste: %v", err)
	}

	short, cancel = context.WithTimeout(t.Context(), 3*l.change)
	defer cancel()

	_, err := client.PurchaseCapacityBlock(
		short,
		&ec2.PurchaseCapacityBlockInput{CapacityBlockOfferingId: aws.String("cb-1"), InstancePlatform: "Linux/UNIX"},
	)
	if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &silent) {
		t.Errorf("a purchase ended with %v", err)
	}
}

// A connection that nobody takes is an error at once, not silence.
func TestRefusedConnection(t *testing.T) {
	l, client, _ := silentWorld(t)

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	address := closed.Addr().String()
	closed.Close()

	_, err = client.DescribeRegions(t.Context(), &ec2.DescribeRegionsInput{}, func(o *ec2.Options) {
		o.BaseEndpoint, o.Retryer = aws.String("http://"+address), aws.NopRetryer{}
	})

	var silent *NoAnswer
	if err == nil || errors.As(err, &silent) || l.isSilent(address) {
		t.Errorf("%v", err)
	}
}

// Haste of one caller is no verdict on the credentials: the chain is asked again for the next, and then no more.
func TestNoVerdictForACallerInHaste(t *testing.T) {
	asked := 0
	c := newCredentials(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		asked++
		return aws.Credentials{}, errors.New("none")
	}))
	hasty, cancel := context.WithCancel(t.Context())
	cancel()

	for i, step := range []struct {
		ctx   context.Context
		asked int
	}{{hasty, 1}, {t.Context(), 2}, {t.Context(), 2}} {
		var none *NoCredentials
		if _, err := c.Retrieve(step.ctx); !errors.As(err, &none) || asked != step.asked {
			t.Errorf("caller %d: %v, the chain was asked %d times, not %d", i, err, asked, step.asked)
		}
	}
}

// A clock that is off is set to the Date header's second, never a second past it, whichever way it is off.
func TestOffset(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 900e6, time.UTC)
	date := http.Header{"Date": {"Fri, 20 Nov 2026 12:00:00 GMT"}}
	for name, test := range map[string]struct {
		sent, received time.Time
		want           time.Duration
	}{
		"right":       {at, at.Add(10 * time.Millisecond), 0},
		"slow answer": {at.Add(-5 * time.Second), at, 0},
		"behind AWS":  {at.Add(-time.Hour), at.Add(-time.Hour), time.Hour - 900*time.Millisecond},
		"ahead":       {at.Add(time.Hour), at.Add(time.Hour), -time.Hour - 900*time.Millisecond},
	} {
		var c clock
		c.update(date, test.sent, test.received)

		if off := c.offset(); off != test.want {
			t.Errorf("%s: offset %s, want %s", name, off, test.want)
		}
	}

	var c clock
	c.update(http.Header{"Date": {"yesterday"}}, at, at)

	if c.offset() != 0 {
		t.Error("a bad Date was taken")
	}
}
