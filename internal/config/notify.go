package config

import (
	"net/url"
	"regexp"
	"slices"
)

// noticeFormats are the forms that internal/notify has.
var noticeFormats = []string{"json", "slack", "sns"}

// snsTopic is the ARN of a topic: Amazon SNS API Reference, CreateTopic.
var snsTopic = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?$`)

func (n Notify) validate(fail func(where, message string, args ...any)) {
	for _, s := range []struct{ where, url string }{{"notify.webhook", n.Webhook}, {"notify.heartbeat", n.Heartbeat}} {
		if u, err := url.Parse(s.url); s.url != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
			fail(s.where, "is not a URL; it begins with https://")
		}
	}
	switch {
	case !slices.Contains(noticeFormats, n.Format):
		fail("notify.format", "%q is not known; use \"json\", \"slack\" or \"sns\"", n.Format)
	case n.Format == "sns" && !snsTopic.MatchString(n.Topic):
		fail("notify.topic", "%q is not the ARN of an SNS topic, which format \"sns\" needs", n.Topic)
	case n.Format == "sns" && n.Webhook != "":
		fail("notify.webhook", "SNS takes signed requests only; leave webhook out, and run `aws sns publish` as command: notices.md")
	case n.Format != "sns" && n.Topic != "":
		fail("notify.topic", "is for format \"sns\"; leave it out")
	}
}
