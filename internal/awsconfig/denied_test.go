package awsconfig

import (
	"errors"
	"testing"

	"github.com/aws/smithy-go"
)

// Messages of AWS, as seen in public issues and in the IAM User Guide, "Troubleshoot access
// denied error messages".
func TestDenied(t *testing.T) {
	for name, c := range map[string]struct {
		code, service, operation, message string
		want                              string // "" for no Denied
	}{
		"no policy": {"UnauthorizedOperation", "EC2", "DescribeSubnets",
			"You are not authorized to perform this operation. User: arn:aws:iam::1:user/x is not authorized to perform: ec2:DescribeSubnets because no identity-based policy allows the ec2:DescribeSubnets action",
			"ec2:DescribeSubnets is not allowed for arn:aws:iam::1:user/x (UnauthorizedOperation)"},
		"another action, on a resource": {"UnauthorizedOperation", "EC2", "RunInstances",
			"You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/r/i-0 is not authorized to perform: iam:PassRole on resource: arn:aws:iam::1:role/nodes because no identity-based policy allows the iam:PassRole action. Encoded authorization failure message: 4bz0-hJk",
			"iam:PassRole is not allowed for arn:aws:sts::1:assumed-role/r/i-0 on arn:aws:iam::1:role/nodes (UnauthorizedOperation)"},
		"explicit deny": {"AccessDeniedException", "PCS", "UpdateQueue",
			"User: arn:aws:iam::1:user/x is not authorized to perform: pcs:UpdateQueue on resource: arn:aws:pcs:us-east-2:1:cluster/pcs_1 with an explicit deny in a service control policy",
			"pcs:UpdateQueue is not allowed for arn:aws:iam::1:user/x on arn:aws:pcs:us-east-2:1:cluster/pcs_1 with an explicit deny in a service control policy (AccessDeniedException)"},
		"boundary": {"AccessDenied", "IAM", "GetInstanceProfile",
			"User: arn:aws:iam::1:user/x is not authorized to perform: iam:GetInstanceProfile on resource: instance profile p.x because no permissions boundary allows the iam:GetInstanceProfile action",
			"iam:GetInstanceProfile is not allowed for arn:aws:iam::1:user/x on instance profile p.x because no permissions boundary allows the iam:GetInstanceProfile action (AccessDenied)"},
		"old words": {"UnauthorizedOperation", "EC2", "RunInstances",
			"You are not authorized to perform this operation. Encoded authorization failure message: 4bz0-hJk",
			"ec2:RunInstances, or what else it needs, is not allowed (UnauthorizedOperation)"},
		"old words, reading": {"UnauthorizedOperation", "EC2", "DescribeSubnets", "You are not authorized to perform this operation.",
			"ec2:DescribeSubnets is not allowed (UnauthorizedOperation)"},
		"UltraServers": {"UnauthorizedOperation", "EC2", "DescribeCapacityBlockOfferings", "This account is not authorized to call DescribeCapacityBlockOfferings for UltraServers", ""},
		"another code": {"InvalidParameterValue", "EC2", "DescribeSubnets", "User: x is not authorized to perform: ec2:DescribeSubnets", ""},
	} {
		aws := &smithy.GenericAPIError{Code: c.code, Message: c.message, Fault: smithy.FaultClient}
		err := denied(c.service, c.operation, aws)
		var d *Denied
		switch is := errors.As(err, &d); {
		case is != (c.want != ""):
			t.Errorf("%s: %v", name, err)
		case is && (err.Error() != c.want || d.ErrorCode() != c.code || d.ErrorFault() != smithy.FaultClient || !errors.Is(err, aws)):
			t.Errorf("%s:\n%s, want\n%s", name, err, c.want)
		}
	}
	if other := errors.New("x"); denied("EC2", "DescribeSubnets", other) != other {
		t.Error("an error that is no answer of AWS was changed")
	}
}
