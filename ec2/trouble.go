package ec2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Explain puts an error of EC2, or of another service of AWS, into words that stay the
// same when it comes again: without the id of the request. What every call would meet,
// whatever it asks, is general; its words are one sentence with the remedy.
func (c *Client) Explain(err error) (words string, general bool) {
	if words := c.trouble(err); words != "" {
		return words, true
	}
	return steady(err), false
}

// steady is the text of an error without what is different each time.
func steady(err error) string {
	text := err.Error()
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		short := fmt.Sprintf("HTTP status %d", answer.HTTPStatusCode())
		if code := Code(answer); code != "" {
			short = code + ": " + Message(answer)
		}
		text = strings.Replace(text, answer.Error(), short, 1)
	}
	return text
}

// trouble is the sentence for an error that every call would meet; "" for any other.
func (c *Client) trouble(err error) string {
	var none *awsconfig.NoCredentials
	if errors.As(err, &none) {
		return none.Words(steady)
	}
	switch code := Code(err); code {
	case "":
	case "ExpiredToken", "ExpiredTokenException":
		return fmt.Sprintf("the AWS credentials have expired (%s); renew them, for example with `aws sso login`", code)
	case "RequestExpired":
		return "the AWS credentials have expired, or the clock of this machine is wrong (RequestExpired); renew them, or set the clock"
	case "AuthFailure", "InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "InvalidSignatureException", "MissingAuthenticationToken":
		return fmt.Sprintf("AWS does not accept the credentials in region %s (%s); check them with `aws sts get-caller-identity`, and that the account has enabled the region", c.region, code)
	case "OptInRequired":
		return fmt.Sprintf("the account has not enabled region %s (OptInRequired); check the region, or enable it in the AWS console", c.region)
	default:
		return ""
	}
	var name *net.DNSError
	if errors.As(err, &name) && name.IsNotFound {
		return fmt.Sprintf("AWS has no host %s; check the region (%s) and this machine's DNS", name.Name, c.region)
	}
	var silent *awsconfig.NoAnswer
	if errors.As(err, &silent) {
		return "AWS cannot be reached: " + silent.Error()
	}
	var unsent *smithyhttp.RequestSendError
	if errors.As(err, &unsent) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("AWS cannot be reached %s (%s); check the network, VPC endpoints and AWS_ENDPOINT_URL", c.place(err), cause(err))
	}
	return ""
}

// place is where a call went, as far as that is known.
func (c *Client) place(err error) string {
	endpoint := aws.ToString(c.shared.Config.BaseEndpoint)
	var call *url.Error
	if errors.As(err, &call) {
		endpoint = call.URL
	}
	if u, parseErr := url.Parse(endpoint); parseErr == nil && u.Host != "" {
		return "at " + u.Host
	}
	return "in " + c.region
}

// cause is why a connection failed. The error itself names the port of this machine, which
// is another one each time.
func cause(err error) string {
	var number syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	return "the connection broke"
}
