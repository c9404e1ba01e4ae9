package pcs

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/pcs/types"
	"github.com/aws/smithy-go"
)

// ErrNotDescribed is an answer without the thing asked for; perhaps it does not come from PCS.
var ErrNotDescribed = errors.New("PCS left it out of its answer")

// ErrInUse is returned when a node group has instances: an update would replace
// them, and the jobs on them would lose minutes of a paid block.
var ErrInUse = errors.New("the node group has instances")

// ErrAtWork is returned, with NoWait, while PCS is changing a thing or its cluster. The change goes
// on, and the same call made later continues from there.
var ErrAtWork = errors.New("PCS is at work on it")

// ErrNotOurs is returned for things without our tag.
var ErrNotOurs = errors.New("it does not carry our tag")

// Code is the name of AWS's exception, verbatim ("ConflictException"); "" if err
// holds no answer of AWS.
func Code(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}

// NotFound reports whether PCS does not know the thing.
func NotFound(err error) bool {
	var absent *types.ResourceNotFoundException
	return errors.As(err, &absent)
}

// inConflict reports whether PCS is changing the thing, or has one of that name.
func inConflict(err error) bool {
	var conflict *types.ConflictException
	return errors.As(err, &conflict)
}
