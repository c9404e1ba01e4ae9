package setup

import (
	"context"
	"fmt"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// The names of the resources in a template of CloudFormation.
const (
	stackTemplate = "LaunchTemplate"
	stackGroup    = "ComputeNodeGroup"
)

// CloudFormation returns the plan's launch template and node group as a template for AWS
// CloudFormation, from the same requests that Apply sends. Settings and queue are left out: no job
// may reach the nodes before the fence. It changes nothing. A plan with mismatches is refused
// (*Refusal).
func (s Setup) CloudFormation(ctx context.Context, p *Plan) (map[string]any, error) {
	if len(p.Mismatches) > 0 {
		return nil, &Refusal{Mismatches: p.Mismatches}
	}
	resources := map[string]any{}
	queue := ""
	for _, e := range p.Effects {
		queue = e.About().Partition
		switch e := e.(type) {
		case WriteTemplate:
			template, err := s.EC2.LaunchTemplateProperties(ctx, e.Spec)
			if err != nil {
				return nil, err
			}
			resources[stackTemplate] = resource("AWS::EC2::LaunchTemplate", template)
		case WriteGroup:
			group, err := pcs.NodeGroupProperties(e.Group)
			if err != nil {
				return nil, err
			}
			group["CustomLaunchTemplate"] = map[string]any{
				"TemplateId": map[string]any{"Ref": stackTemplate},
				"Version":    attribute(stackTemplate, "LatestVersionNumber"),
			}
			resources[stackGroup] = resource("AWS::PCS::ComputeNodeGroup", group)
		}
	}
	return map[string]any{
		"AWSTemplateFormatVersion": "2010-09-09",
		"Description": fmt.Sprintf(
			"pcs-capacity: reservation %s for queue %s; pcs-capacity setup, run afterwards, writes the settings, places the fence and makes the queue",
			p.Reservation.ID, queue),
		"Resources": resources,
	}, nil
}

func resource(kind string, properties map[string]any) map[string]any {
	return map[string]any{"Type": kind, "Properties": properties}
}

func attribute(of, name string) map[string]any {
	return map[string]any{"Fn::GetAtt": []string{of, name}}
}

// There returns the steps about existing things in AWS: CloudFormation creates nothing under their
// names, but can import them into a stack.
func (p *Plan) There() []Step {
	return slices.DeleteFunc(p.Steps(), func(s Step) bool {
		return s.What != WhatTemplate && s.What != WhatNodeGroup || s.Action == Create || s.Action == Replace
	})
}
