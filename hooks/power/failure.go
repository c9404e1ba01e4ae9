package power

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
)

// Failure is why something was not done. Failures for one reason share one pointer.
type Failure struct {
	// Outcome says whether the call may have taken effect. Our own refusal is NotTried.
	Outcome capacity.Outcome
	// Code is EC2's code, verbatim, like EC2Code, or else ours.
	Code, EC2Code string
	// Message excludes Advice, which says what to do, if anything is known.
	Message, Advice string
	// NotBefore is the time before which a retry fails too, in AWS's clock; zero if unknown.
	NotBefore time.Time
}

// refusal is our own reason not to launch, with a code of ours.
func refusal(code capacity.Code, format string, args ...any) *Failure {
	return &Failure{Outcome: capacity.NotTried, Code: string(code), Message: fmt.Sprintf(format, args...)}
}

// failed is a failure without a code.
func failed(format string, args ...any) *Failure {
	return &Failure{Outcome: capacity.Unknown, Code: string(capacity.FailedOtherwise),
		Message: fmt.Sprintf(format, args...)}
}

// errNoTime is why something is not begun.
var errNoTime = refusal(capacity.NoTime, "there was no time left to launch")

// failureOf turns an error of an adapter into a Failure, with AWS's code and message as they are; nil for nil.
func failureOf(err error) *Failure {
	var ours *Failure
	if err == nil || errors.As(err, &ours) {
		return ours
	}
	f := failed("%v", err)
	f.Outcome = capacity.OutcomeOf(err)
	var answer interface {
		ErrorCode() string
		ErrorMessage() string
	}
	if errors.As(err, &answer) {
		f.Code, f.EC2Code, f.Message, f.Advice = answer.ErrorCode(), answer.ErrorCode(), answer.ErrorMessage(), ec2.Advice(err)
	}
	return f
}

func refusalOf(v capacity.Verdict) *Failure {
	f := refusal(v.Code, "%s", v.Message)
	f.NotBefore = v.NotBefore
	return f
}

// is reports whether there is a failure with the outcome.
func (f *Failure) is(o capacity.Outcome) bool { return f != nil && f.Outcome == o }

// Error makes a failure an error, for the exit status.
func (f *Failure) Error() string { return f.Code + ": " + f.message() }

func (f *Failure) message() string {
	if f.Advice == "" {
		return f.Message
	}
	return strings.TrimSuffix(f.Message, ".") + "; " + f.Advice
}

// maxReason keeps a node's Reason readable in sinfo -R.
const maxReason = 250

// reason is the node's Reason, which every user of the cluster sees. If it must be cut, Advice stays.
func (f *Failure) reason() string {
	advice := ""
	if f.Advice != "" {
		advice = "; " + f.Advice
	}
	said := strings.TrimSuffix(f.Code+": "+f.message(), advice)
	return hook.OneLine(hook.Clip(said, maxReason-len(advice)) + advice)
}
