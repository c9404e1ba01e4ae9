package pcs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
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
