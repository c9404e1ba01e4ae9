package awssim

import (
	"encoding/xml"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim/shapes"
)

// object is a structure of an answer, by the names that the service model gives its members. What is empty is left out.
type object = map[string]any

// ec2ErrorBody writes an error in EC2's envelope, or in that of STS.
func ec2ErrorBody(c *call, e *APIError) []byte {
	type failure struct {
		Code    string
		Message string
	}
	var v any = struct {
		XMLName   xml.Name  `xml:"Response"`
		Errors    []failure `xml:"Errors>Error"`
		RequestID string
	}{Errors: []failure{{e.Code, e.Message}}, RequestID: c.requestID}
	if c.Service == "sts" || c.Service == "iam" {
		v = struct {
			XMLName   xml.Name `xml:"ErrorResponse"`
			Error     failure
			RequestID string `xml:"RequestId"`
		}{Error: failure{e.Code, e.Message}, RequestID: c.requestID}
	}
	body, err := xml.Marshal(v)
	if err != nil {
		panic(err) // plain strings
	}
	return append([]byte(xml.Header), body...)
}

// decodeForm fills an input. No parameter of AWS's is silently passed over.
func decodeForm(c *call, in any) error {
	if left := shapes.DecodeForm("ec2", c.Operation, c.form, in); len(left) > 0 {
		return apiErrorf("UnknownParameter", "The simulator does not take the parameter %s", strings.Join(left, ", "))
	}
	return nil
}

// wireTime is a time as EC2 writes it; the zero time is "".
func wireTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(shapes.EC2Time)
}
