package awssim

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim/shapes"
)

// checkRequest compares a request with AWS's service model, and refuses what differs in the words of the service.
func checkRequest(c *call) error {
	var err error
	if c.form != nil {
		err = shapes.CheckForm(c.Service, c.Operation, c.form)
	} else {
		err = shapes.CheckJSON(c.Service, c.Operation, c.Body)
	}
	var shape *shapes.Error
	if !errors.As(err, &shape) {
		return err
	}
	switch c.Service {
	case "pcs":
		return pcsShapeError(c, shape)
	case "ec2":
		return ec2ShapeError(c, shape.Violations)
	case "ssm":
		return apiErrorf("ValidationException", "%s", shape.Error())
	}
	return &APIError{Code: "ValidationError", Status: http.StatusBadRequest, Message: shape.Error()} // IAM and STS
}

// ec2ShapeError tells of one parameter, as EC2 does.
func ec2ShapeError(c *call, all []shapes.Violation) error {
	switch first := all[0]; first.Kind {
	case shapes.Unknown:
		return apiErrorf("UnknownParameter", "The parameter %s is not recognized", first.Path)
	case shapes.Missing:
		return apiErrorf("MissingParameter", "The request must contain the parameter %s", first.Path)
	default:
		return apiErrorf("InvalidParameterValue", "Value (%s) for parameter %s is invalid. %s", c.form.Get(first.Path), first.Path, first.Problem)
	}
}

func pcsShapeError(c *call, shape *shapes.Error) error {
	if !json.Valid(c.Body) {
		return &APIError{Code: "ValidationException", Message: shape.Violations[0].Problem, Detail: map[string]any{"reason": "cannotParse"}}
	}
	var v pcsValidation
	for _, violation := range shape.Violations {
		v.add(violation.Path, "%s", violation.Problem)
	}
	return v.err()
}
