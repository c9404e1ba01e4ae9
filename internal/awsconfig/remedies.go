package awsconfig

import (
	"context"
	"errors"
	"slices"
	"strings"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
)

// Remedy is what an error code of AWS means here, and what to do about it.
type Remedy struct {
	// Code is AWS's, verbatim.
	Code string
	// Calls are the operations that answer the code in this meaning; none: every one.
	Calls []string
	// Says is a part of AWS's message, where the code alone has several meanings.
	Says string
	// Means and Do are a sentence each, without a capital letter and a full stop.
	Means, Do string
}

// General are the codes that every call would meet, whatever it asks, at EC2 as at PCS.
var General = slices.Concat(
	Remedies(nil, "the AWS credentials have expired", "renew them, for example with `aws sso login`",
		"ExpiredToken", "ExpiredTokenException"),
	Remedies(nil, "the AWS credentials have expired, or the clock of this machine is wrong", "renew the credentials or correct the clock",
		"RequestExpired"),
	Remedies(nil, "AWS does not accept the credentials", "check them with `aws sts get-caller-identity`, and that the account has enabled the region",
		"AuthFailure", "InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "InvalidSignatureException", "MissingAuthenticationToken"),
	Remedies(nil, "the account has not enabled the region", "check the region, or enable it in the AWS console",
		"OptInRequired"),
)

// Remedies are those of codes that mean the same to some calls; nil stands for every call.
func Remedies(calls []string, means, do string, codes ...string) []Remedy {
	var all []Remedy
	for _, code := range codes {
		all = append(all, Remedy{Code: code, Calls: calls, Means: means, Do: do})
	}
	return all
}

// Find is the first remedy for an error of AWS that an operation answered.
func Find(table []Remedy, operation string, err error) (Remedy, bool) {
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return Remedy{}, false
	}
	i := slices.IndexFunc(table, func(r Remedy) bool {
		return r.Code == answer.ErrorCode() && (len(r.Calls) == 0 || slices.Contains(r.Calls, operation)) && strings.Contains(answer.ErrorMessage(), r.Says)
	})
	if i < 0 {
		return Remedy{}, false
	}
	return table[i], true
}

// Advised is an error of AWS with what to do about it.
type Advised struct {
	err    error
	advice string
}

func (a *Advised) Error() string { return strings.TrimSuffix(a.err.Error(), ".") + "; " + a.advice }

// Unwrap is AWS's error.
func (a *Advised) Unwrap() error { return a.err }

// Advice is what to do about an error of AWS; "" where AWS's message says it all.
func Advice(err error) string {
	var advised *Advised
	if errors.As(err, &advised) {
		return advised.advice
	}
	return ""
}

// Advise adds to the errors that a client returns what to do about them, by its service's
// table and General.
func Advise(table []Remedy) func(*middleware.Stack) error {
	table = slices.Concat(table, General)
	look := middleware.InitializeMiddlewareFunc("Advise", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
		middleware.InitializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleInitialize(ctx, in)
		if r, found := Find(table, awsmiddleware.GetOperationName(ctx), err); found {
			err = &Advised{err, r.Do}
		}
		return out, metadata, err
	})
	return func(stack *middleware.Stack) error { return stack.Initialize.Add(look, middleware.After) }
}
