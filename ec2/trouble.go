package ec2

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Explain puts an error of EC2, or of another AWS service, into words that stay the same when it
// repeats: without the request's id. An error that every call would meet is general; its words are
// one sentence with the remedy.
func (c *Client) Explain(err error) (words string, general bool) {
	if words := c.trouble(err); words != "" {
		return words, true
	}
	return steady(err), false
}

// steady is the text of an error without the parts that differ each time.
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

// trouble is the sentence for an error that every call would meet, else "".
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
	var silent *awsconfig.NoAnswer
	if errors.As(err, &silent) {
		return "AWS cannot be reached: " + silent.Error()
	}
	if gone := awsconfig.Unanswered(err, c.region, aws.ToString(c.shared.Config.BaseEndpoint)); gone != nil {
		return gone.Error()
	}
	return ""
}
