package notify

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Format is the form of a message.
type Format string

// The forms: the message as it is, the body of Slack's incoming webhooks, and the input of
// `aws sns publish --cli-input-json`.
const (
	JSON  Format = "json"
	Slack Format = "slack"
	SNS   Format = "sns"
)

// Formats are all of them.
var Formats = []Format{JSON, Slack, SNS}

// escaped is what Slack takes for marks: "Formatting text for app surfaces".
var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// body is a message in the target's form. A message has at least the fields kind and message.
func (t Target) body(message any) ([]byte, error) {
	text, err := json.Marshal(message)
	if err != nil || t.Format != Slack && t.Format != SNS {
		return text, err
	}
	var fields map[string]string
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	sentence := fields["message"]
	delete(fields, "message")
	if t.Format == Slack {
		return json.Marshal(map[string]string{"text": "*pcs-capacity: " + escaped.Replace(fields["kind"]) + "*\n" + escaped.Replace(sentence)})
	}
	type attribute struct{ DataType, StringValue string }
	attributes := map[string]attribute{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name] != "" { // SNS takes no empty ones
			attributes[name] = attribute{"String", fields[name]}
		}
	}
	return json.Marshal(struct {
		TopicArn, Subject, Message string
		MessageAttributes          map[string]attribute
	}{t.Topic, "pcs-capacity: " + fields["kind"], sentence, attributes})
}
