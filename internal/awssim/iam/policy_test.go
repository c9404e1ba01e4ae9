package iam

import (
	"slices"
	"strings"
	"testing"
)

const policyText = `{
  "Version": "2012-10-17",
  "Statement": [
    {"Sid": "Read", "Effect": "Allow", "Action": ["ec2:Describe*", "PCS:list*"], "Resource": "*"},
    {"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "arn:aws:ec2:*:111122223333:instance/*",
     "Condition": {"StringLike": {"aws:ResourceTag/Team": ["nlp", "vis*"]}}},
    {"Effect": "Allow", "Action": "ec2:CreateTags", "Resource": "arn:aws:ec2:us-east-2:*:instance/i-?",
     "Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}, "StringEqualsIfExists": {"ec2:CreateAction": "RunInstances"},
                   "Null": {"aws:RequestTag/a": false}}},
    {"Effect": "Allow", "NotAction": "iam:*", "NotResource": "arn:aws:ec2:*:*:*",
     "Condition": {"StringNotEquals": {"aws:RequestedRegion": "eu-west-1"}}},
    {"Effect": "Allow", "Action": "iam:PassRole", "Resource": "arn:aws:iam::111122223333:role/AWSPCS*",
     "Condition": {"ForAnyValue:StringEqualsIgnoreCase": {"iam:PassedToService": ["EC2.amazonaws.com"]}}},
    {"Effect": "Allow", "Action": "ec2:DeleteTags", "Resource": "*", "Condition": {"ForAllValues:StringLike": {"aws:TagKeys": "a*"}}},
    {"Effect": "Deny", "Action": "ec2:DescribeImages", "Resource": "*", "Condition": {"ArnNotLike": {"k": "arn:*"}}}
  ]
}`

func TestDecide(t *testing.T) {
	p, err := Parse([]byte(policyText))
	if err != nil {
		t.Fatal(err)
	}
	const instance = "arn:aws:ec2:us-east-2:111122223333:instance/i-1"
	for _, c := range []struct {
		name, action, resource string
		keys                   map[string][]string
		want                   Verdict
	}{
		{"wildcard", "ec2:DescribeInstances", "*", nil, Allowed},
		{"case of the action", "pcs:ListClusters", "*", nil, Allowed},
		{"no statement", "ec2:RunInstances", instance, nil, NotAllowed},
		{"an ARN is no *", "ec2:TerminateInstances", "*", map[string][]string{"aws:ResourceTag/Team": {"nlp"}, "aws:RequestedRegion": {"eu-west-1"}}, NotAllowed},
		{"tag", "ec2:TerminateInstances", instance, map[string][]string{"aws:ResourceTag/Team": {"nlp"}}, Allowed},
		{"tag with a pattern", "ec2:TerminateInstances", instance, map[string][]string{"aws:resourcetag/team": {"vision"}}, Allowed},
		{"other tag", "ec2:TerminateInstances", instance, map[string][]string{"aws:ResourceTag/Team": {"NLP"}}, NotAllowed},
		{"no tag", "ec2:TerminateInstances", instance, nil, NotAllowed},
		{"all keys", "ec2:CreateTags", instance, map[string][]string{"aws:TagKeys": {"a", "b"}, "aws:RequestTag/a": {""}}, Allowed},
		{"one key more", "ec2:CreateTags", instance, map[string][]string{"aws:TagKeys": {"a", "c"}, "aws:RequestTag/a": {""}}, NotAllowed},
		{"a key is missing", "ec2:CreateTags", instance, map[string][]string{"aws:TagKeys": {"b"}}, NotAllowed},
		{"other create action", "ec2:CreateTags", instance, map[string][]string{"aws:TagKeys": {"a"}, "aws:RequestTag/a": {""}, "ec2:CreateAction": {"X"}}, NotAllowed},
		{"all of no keys", "ec2:DeleteTags", instance, nil, Allowed},
		{"? is one character", "ec2:CreateTags", instance + "2", map[string][]string{"aws:TagKeys": {"a"}, "aws:RequestTag/a": {""}}, NotAllowed},
		{"not action, not resource", "ssm:GetParameters", "arn:aws:ssm:us-east-2:111122223333:parameter/x", nil, Allowed},
		{"excepted region", "ssm:GetParameters", "arn:aws:ssm:eu-west-1:111122223333:parameter/x", map[string][]string{"aws:RequestedRegion": {"eu-west-1"}}, NotAllowed},
		{"excepted action", "iam:GetRole", "arn:aws:iam::111122223333:role/AWSPCS-x", nil, NotAllowed},
		{"any value", "iam:PassRole", "arn:aws:iam::111122223333:role/AWSPCS-x", map[string][]string{"iam:PassedToService": {"x", "ec2.amazonaws.com"}}, Allowed},
		{"no value", "iam:PassRole", "arn:aws:iam::111122223333:role/AWSPCS-x", nil, NotAllowed},
		{"deny wins", "ec2:DescribeImages", "*", nil, Denied},
		{"deny has a condition", "ec2:DescribeImages", "*", map[string][]string{"k": {"arn:aws:x"}}, Allowed},
	} {
		keys := Keys{}
		for name, values := range c.keys {
			keys.Set(name, values...)
		}
		if got := p.Decide(Request{c.action, c.resource, keys}); got != c.want {
			t.Errorf("%s: verdict %d, want %d", c.name, got, c.want)
		}
	}
	want := []string{"aws:requestedregion", "aws:requesttag/a", "aws:resourcetag/team", "aws:tagkeys", "ec2:createaction", "iam:passedtoservice", "k"}
	if got := p.Keys(); !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	if _, err := Parse([]byte(`{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}`)); err != nil {
		t.Errorf("one statement without a list: %v", err)
	}
	for text, want := range map[string]string{
		`{"Version": "2020-01-01", "Statement": []}`: "2012-10-17",
		`{"Statement": []}`:                          "no statement",
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*", "Principal": "*"}]}`:                                            "Principal",
		`{"Statement": [{"Effect": "allow", "Action": "*", "Resource": "*"}]}`:                                                              "effect",
		`{"Statement": [{"Effect": "Allow", "Resource": "*"}]}`:                                                                             "Action or NotAction",
		`{"Statement": [{"Effect": "Allow", "Action": "*"}]}`:                                                                               "Resource or NotResource",
		`{"Statement": [{"Effect": "Allow", "Action": "RunInstances", "Resource": "*"}]}`:                                                   "service:Operation",
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "i-1"}]}`:                                                            "an ARN",
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:ec2:*:*:instance/${aws:username}"}]}`:                       "variables",
		`{"Statement": [{"Effect": "Allow", "Action": 5, "Resource": "*"}]}`:                                                                "list of texts",
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}]}`:  "IpAddress",
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"Null": {"aws:TagKeys": "yes"}}}]}`:               "true or false",
		`{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {"ForSome:StringEquals": {"aws:TagKeys": "x"}}}]}`: "ForSome",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}
