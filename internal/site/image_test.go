package site

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Names and descriptions are those of AWS's images.
func TestDrivers(t *testing.T) {
	h100 := ec2.InstanceType{Name: "p5.48xlarge", GPUs: 8, GPUName: "H100", GPUFiles: "/dev/nvidia"}
	trainium := ec2.InstanceType{Name: "trn2.48xlarge", GPUs: 16, GPUName: "Trainium2", GPUFiles: "/dev/neuron"}
	for says, c := range map[string]struct {
		kind ec2.InstanceType
		fine bool
	}{
		"aws-pcs-ready-dlami-base-ubuntu2404-x86_64-20260522 ":                     {h100, true},
		"deep learning base oss nvidia driver gpu ami (ubuntu 24.04) 20260522 ":    {h100, true},
		"aws-parallelcluster-3.15.1-al2023 dcv-2025, nvidia-580.105.08, cuda-13.0": {h100, true},
		"site-7  drivers nvidia":                                                       {h100, true},
		"aws-pcs-sample_ami-al2023-x86_64-slurm-25.11 ":                                {h100, false},
		"deep learning ami neuron (ubuntu 24.04) 20260501 ":                            {h100, false},
		"al2023-ami-2023.9 amazon linux 2023 ami x86_64 hvm kernel-6.1":                {h100, false},
		"ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260501 canonical": {h100, false},
		"deep learning ami neuron (ubuntu 24.04) ":                                     {trainium, true},
		"deep learning base oss nvidia driver gpu ami ":                                {trainium, false},
		"al2023 cpu": {ec2.InstanceType{Name: "c7i.4xlarge"}, true},
		"al2023":     {ec2.InstanceType{Name: "g4ad.xlarge", GPUs: 1, GPUName: "Radeon Pro V520"}, true}, // no word is known for these
	} {
		s := Launch{Provider: capacity.ProviderPCS, Image: ec2.Image{ID: "ami-1", Says: says}, Type: c.kind}
		if got := drivers(s); (len(got) == 0) != c.fine || len(got) > 0 && Stops(got[0]) {
			t.Errorf("%s on %s: %v", says, c.kind.Name, got)
		}
	}

	s := Launch{Provider: capacity.ProviderPCS, Image: ec2.Image{ID: "ami-1", Name: "al2023", Says: "al2023 "}, Type: h100, Network: Network{Region: "us-east-2"}}
	const tag = "or say so by a tag if it has them: `aws ec2 create-tags --region us-east-2 --resources ami-1 --tags Key=drivers,Value="
	for _, c := range []struct {
		provider capacity.Provider
		kind     ec2.InstanceType
		want     string
	}{
		{capacity.ProviderPCS, h100, "the 8 H100 of p5.48xlarge, and Slurm drains a node that shows fewer GPUs than configured; give another image with --ami pcs-dlami, " + tag + "nvidia`"},
		{capacity.ProviderEC2, h100, "the 8 H100 of p5.48xlarge, and Slurm drains a node that shows fewer GPUs than configured; give another image with --ami, " + tag + "nvidia`"},
		{capacity.ProviderPCS, trainium, "the 16 Trainium2 of trn2.48xlarge, and Slurm drains a node that shows fewer GPUs than configured; give another image with --ami, " + tag + "neuron`"},
	} {
		s.Provider, s.Type = c.provider, c.kind
		if diff := cmp.Diff("nothing says that image ami-1 (al2023) has drivers for "+c.want, drivers(s)[0].Text()); diff != "" {
			t.Error(diff)
		}
	}
}
