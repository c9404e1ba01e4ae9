package awsconfig

import (
	"context"
	"fmt"
	"io"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// plainBody sends request bodies without their WriteTo method, so that a fast answer
// is not taken for a broken connection.
//
// The SDK closes the body as soon as the head of the answer is there. net/http may
// still look whether the body is longer than announced, and a closed body answers
// io.EOF to WriteTo, which net/http takes for a failed write: it cuts the connection
// in the middle of the answer. Read answers io.EOF too, where it means the end. The SDK
// retries such a call (aws-sdk-go-v2 issue 2737); a purchase, which is sent once, would
// end with an unknown outcome.
func plainBody(stack *middleware.Stack) error {
	hide := middleware.BuildMiddlewareFunc("PlainBody", func(ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler) (
		middleware.BuildOutput, middleware.Metadata, error) {
		request, ok := in.Request.(*smithyhttp.Request)
		if !ok {
			return next.HandleBuild(ctx, in)
		}
		if body, ok := request.GetStream().(io.ReadSeeker); ok {
			plain, err := request.SetStream(struct{ io.ReadSeeker }{body})
			if err != nil {
				return middleware.BuildOutput{}, middleware.Metadata{}, fmt.Errorf("preparing the body of the request: %w", err)
			}
			in.Request = plain
		}
		return next.HandleBuild(ctx, in)
	})
	return stack.Build.Add(hide, middleware.After)
}
