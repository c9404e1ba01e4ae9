package pcs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/mail"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// GPUImage stands for the image that GPUImageFor finds.
const GPUImage = "pcs-dlami"

// gpuImageName begins the names of PCS's images with GPU drivers: AWS PCS User Guide, "Using
// PCS-ready DLAMI with AWS PCS".
const gpuImageName = "aws-pcs-ready-dlami-"

// IsGPUImage reports whether an image with this name and owner is one of PCS's.
func IsGPUImage(name, owner string) bool {
	return owner == "amazon" && strings.HasPrefix(name, gpuImageName)
}

// GPUImageFor is the id of the newest image with GPU drivers that PCS publishes in the region for
// one of the architectures, and the public parameter of Systems Manager that names it. The error's
// Code is ParameterNotFound where there is none.
func (c *Client) GPUImageFor(ctx context.Context, architectures []string) (id, parameter string, err error) {
	architecture := "x86_64"
	if slices.Contains(architectures, "arm64") {
		architecture = "arm64"
	}
	parameter = "/aws/service/pcs/ami/dlami-base-ubuntu2404/" + architecture + "/latest/ami-id"
	out, err := c.getParameter(ctx, &ssm.GetParameterInput{Name: aws.String(parameter)})
	if err != nil {
		return "", parameter, fmt.Errorf("reading parameter %s in %s: %w", parameter, c.region, err)
	}
	if out.Parameter == nil || str(out.Parameter.Value) == "" {
		return "", parameter, fmt.Errorf("reading parameter %s in %s: the answer has no value", parameter, c.region)
	}
	return str(out.Parameter.Value), parameter, nil
}

// Role is a role of IAM.
type Role struct{ Path, Name, ARN string }

// Taken reports whether PCS accepts the role for nodes: AWS PCS User Guide, "IAM instance profiles".
func (r Role) Taken() bool {
	return strings.HasPrefix(r.Name, "AWSPCS") || strings.HasPrefix(r.Path, "/aws-pcs/")
}

// RoleOf is the role of an instance profile, by its ARN; zero for a profile without one. An unknown
// profile is an error with Code NoSuchEntity.
func (c *Client) RoleOf(ctx context.Context, profileARN string) (Role, error) {
	name := profileARN[strings.LastIndex(profileARN, "/")+1:]
	out, err := c.getInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(name)})
	if err != nil {
		return Role{}, fmt.Errorf("reading instance profile %s: %w", name, err)
	}
	if out.InstanceProfile == nil || len(out.InstanceProfile.Roles) == 0 {
		return Role{}, nil
	}
	r := out.InstanceProfile.Roles[0] // there is one at most
	return Role{str(r.Path), str(r.RoleName), str(r.Arn)}, nil
}

// Registering is the action with which a node joins a cluster, by the role of its instance profile.
const Registering = "pcs:RegisterComputeNodeGroupInstance"

// Registers reports whether the policies of a role let nodes join a cluster. It is an error if they
// depend on context that is not known here.
func (c *Client) Registers(ctx context.Context, role Role, clusterARN string) (bool, error) {
	// Policies may name clusters, or what is in them.
	out, err := c.simulatePrincipalPolicy(ctx, &iam.SimulatePrincipalPolicyInput{PolicySourceArn: aws.String(role.ARN), ActionNames: []string{Registering},
		ResourceArns: []string{clusterARN, clusterARN + "/computenodegroup/pcs_0123456789"}})
	if err != nil {
		return false, fmt.Errorf("simulating the policies of role %s: %w", role.Name, err)
	}
	var missing []string
	for _, result := range out.EvaluationResults {
		for _, one := range result.ResourceSpecificResults {
			if one.EvalResourceDecision == types.PolicyEvaluationDecisionTypeAllowed {
				return true, nil
			}
			missing = append(missing, one.MissingContextValues...)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return false, errors.New("the policies of role " + role.Name + " depend on " + strings.Join(slices.Compact(missing), ", "))
	}
	return false, nil
}

// boundary separates the parts of user data. It is fixed: the same user data makes the same launch template.
const boundary = "==pcs-capacity=="

// userDataTypes maps the beginnings of user data to MIME types, as cloud-init does (cloud-init
// documentation, "User data formats").
var userDataTypes = []struct{ begins, mimeType string }{
	{"#!", "text/x-shellscript"},
	{"#cloud-config", "text/cloud-config"},
	{"#cloud-boothook", "text/cloud-boothook"},
	{"#include", "text/x-include-url"},
	{"## template: jinja", "text/jinja2"},
}

// UserData is user data as PCS wants it, a MIME multi-part archive (AWS PCS User Guide, "Working
// with Amazon EC2 user data"). An archive stays as it is, and anything else becomes the only part
// of one. User data that cloud-init would ignore, or that is compressed, is an error.
func UserData(plain []byte) ([]byte, error) {
	if len(plain) == 0 || isMultipart(plain) {
		return plain, nil
	}
	return Archive(plain)
}

// Archive is a MIME multi-part archive with these parts, which cloud-init handles in this
// order. A part may be an archive itself.
func Archive(parts ...[]byte) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
	for _, plain := range parts {
		part, err := archivePart(plain)
		if err != nil {
			return nil, err
		}
		b.Write(part)
	}
	fmt.Fprintf(&b, "--%s--\n", boundary)
	return b.Bytes(), nil
}

func archivePart(plain []byte) ([]byte, error) {
	if isMultipart(plain) {
		if bytes.Contains(plain, []byte(boundary)) {
			return nil, fmt.Errorf("it is an archive that pcs-capacity has made, and goes into no other")
		}
		return fmt.Appendf(nil, "--%s\n%s\n", boundary, plain), nil // its header becomes the part's
	}
	kind := mimeType(plain)
	if kind == "" {
		return nil, fmt.Errorf("it is neither a MIME multi-part archive nor a script (#!) nor #cloud-config, so that nodes would ignore it")
	}
	return fmt.Appendf(nil, "--%s\nContent-Type: %s; charset=\"utf-8\"\nMIME-Version: 1.0\n\n%s\n", boundary, kind, plain), nil
}

// mimeType is the MIME type of user data, by its beginning; "" for user data that cloud-init would ignore.
func mimeType(plain []byte) string {
	for _, t := range userDataTypes {
		if bytes.HasPrefix(plain, []byte(t.begins)) {
			return t.mimeType
		}
	}
	return ""
}

func isMultipart(data []byte) bool {
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return false
	}
	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	return err == nil && strings.HasPrefix(kind, "multipart/") && parameters["boundary"] != ""
}
