package ec2

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"golang.org/x/sync/errgroup"
)

// Calls that are sent once never end in a broken connection when the answer comes at
// once, as it does on loopback. The requests are longer than net/http's buffer of 4 KB,
// so that their body is on its way before it is asked whether there is more.
func TestR3_FastAnswersAreNotBrokenConnections(t *testing.T) {
	_, c := newSim(t)
	const answer = `<DescribeAvailabilityZonesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>x</requestId>` +
		`<availabilityZoneInfo/></DescribeAvailabilityZonesResponse>`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	large := &ec2.DescribeAvailabilityZonesInput{ZoneIds: make([]string, 300)}
	for i := range large.ZoneIds {
		large.ZoneIds[i] = "use2-az1"
	}
	var calls errgroup.Group
	calls.SetLimit(8)
	for range 200 {
		calls.Go(func() error {
			_, err := c.api.DescribeAvailabilityZones(t.Context(), large, once, func(o *ec2.Options) { o.BaseEndpoint = aws.String(server.URL) })
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		t.Fatal(err)
	}
}

// A body that the SDK has closed already is at its end, not broken.
func TestR3_ClosedBodiesAreNotBrokenConnections(t *testing.T) {
	_, c := newSim(t)
	var seen bool
	look := middleware.FinalizeMiddlewareFunc("Look", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
		middleware.FinalizeOutput, middleware.Metadata, error) {
		request := in.Request.(*smithyhttp.Request)
		built := request.Build(ctx)
		_ = built.Body.Close()
		// What net/http does to learn whether the body is longer than announced.
		if _, err := io.Copy(io.Discard, built.Body); err != nil || built.ContentLength <= 0 {
			t.Errorf("a closed body of %d bytes, a %T, looks like a failed write: %v", built.ContentLength, built.Body, err)
		}
		seen = true
		return next.HandleFinalize(ctx, in)
	})
	_, err := c.api.DescribeAvailabilityZones(t.Context(), &ec2.DescribeAvailabilityZonesInput{}, func(o *ec2.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error { return stack.Finalize.Add(look, middleware.After) })
	})
	if err != nil || !seen {
		t.Errorf("seen %v, error %v", seen, err)
	}
}
