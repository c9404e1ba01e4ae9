package awssim

import (
	"bytes"
	"encoding/xml"
	"maps"
	"slices"
	"time"
)

const ec2Namespace = "http://ec2.amazonaws.com/doc/2016-11-15/"

// encodeEC2 writes a result as <OperationResponse> with the request id first, as EC2 does.
func encodeEC2(c *call, result any) ([]byte, error) {
	root := c.Operation + "Response"
	var inner bytes.Buffer
	err := xml.NewEncoder(&inner).EncodeElement(result, xml.StartElement{Name: xml.Name{Local: root}})
	if err != nil {
		return nil, err
	}
	members := bytes.TrimPrefix(inner.Bytes(), []byte("<"+root+">"))
	out := []byte(xml.Header + "<" + root + ` xmlns="` + ec2Namespace + `"><requestId>` + c.requestID + "</requestId>")
	return append(out, members...), nil
}

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

// done is the result of operations that only say that they worked.
type done struct {
	Return bool `xml:"return"`
}

// tag is a tag in requests and answers.
type tag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

func wireTags(tags map[string]string) []tag {
	out := make([]tag, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, tag{k, tags[k]})
	}
	return out
}

// wireTime is a time as EC2 writes it; the zero time is left out.
func wireTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
