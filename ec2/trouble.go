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
		text = strings.Replace(text, withoutStop(answer.Error()), withoutStop(short), 1)
	}
	return text
}

func withoutStop(sentence string) string { return strings.TrimSuffix(sentence, ".") }

// trouble is the sentence for an error that every call would meet; "" for any other.
func (c *Client) trouble(err error) string {
	var none *awsconfig.NoCredentials
	if errors.As(err, &none) {
		return none.Words(steady)
	}
	if r, found := awsconfig.Find(awsconfig.General, "", err); found {
		return fmt.Sprintf("%s (%s in %s); %s", r.Means, r.Code, c.region, r.Do)
	}
	if Code(err) != "" {
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
