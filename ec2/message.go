package ec2

import (
	"errors"

	"github.com/aws/smithy-go"
)

// Message is what EC2 said with its error code, without the SDK's words around it;
// the error's own text if err holds no answer of AWS.
func Message(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorMessage()
	}
	return err.Error()
}
