package ec2

import (
	"context"
	"io"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

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
