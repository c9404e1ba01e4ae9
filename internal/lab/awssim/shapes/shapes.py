"""Writes shapes.txt, the wire shapes against which the simulator checks requests and answers.

It reads AWS's own service models as botocore carries them (data/ec2/2016-11-15/service-2.json.gz, ...), and keeps what a
checker needs. Run it by hand after the simulator has learned an operation, with one model or more of each service; of two
of one service, the first has precedence:

    python3 internal/lab/awssim/shapes/shapes.py MODEL... >shapes.new && mv shapes.new internal/lab/awssim/shapes/shapes.txt
"""

import gzip
import json
import sys

# The operations that the simulator answers, by service. Answers are checked too, except those of STS.
OPERATIONS = {
    "ec2": """CancelCapacityReservation CreateCapacityReservation CreateLaunchTemplate CreateLaunchTemplateVersion
        CreateTags DeleteLaunchTemplate DescribeAvailabilityZones DescribeCapacityBlockExtensionHistory
        DescribeCapacityBlockExtensionOfferings DescribeCapacityBlockOfferings DescribeCapacityBlockStatus
        DescribeCapacityBlocks DescribeCapacityReservationTopology DescribeCapacityReservations DescribeImages
        DescribeInstanceStatus DescribeInstanceTopology DescribeInstanceTypes DescribeInstances
        DescribeLaunchTemplateVersions DescribeLaunchTemplates DescribeRegions DescribeRouteTables
        DescribeSecurityGroups DescribeSubnets DescribeVpcEndpoints GetConsoleOutput ModifyCapacityReservation
        PurchaseCapacityBlock
        PurchaseCapacityBlockExtension RunInstances TerminateInstances""",
    "pcs": """CreateComputeNodeGroup CreateQueue DeleteComputeNodeGroup DeleteQueue GetCluster GetComputeNodeGroup GetQueue
        ListClusters ListComputeNodeGroups ListQueues ListTagsForResource TagResource UpdateCluster UpdateComputeNodeGroup
        UpdateQueue""",
    "resource-groups": "CreateGroup DeleteGroup GetGroup GetTags GroupResources ListGroupResources",
    "sts": "GetCallerIdentity",
}

HEADER = """\
# Wire shapes of the operations that the simulator answers, made by internal/lab/awssim/shapes/shapes.py. Do not edit.
# Source: the service models in botocore, https://github.com/boto/botocore, Copyright Amazon.com, Inc. or its
# affiliates, under the Apache License, Version 2.0: https://www.apache.org/licenses/LICENSE-2.0
# Fields are separated by tabs:
#   service    NAME       API version         protocol
#   operation  NAME       input shape or -    output shape or -    error shapes...
#   structure  NAME       then one indented line a member: name, type, wire=NAME if that differs, query=NAME if requests
#                         have another one, required if it is
#   list       NAME       type of an item     name of its XML element
#   map        NAME       type of a value
#   enum       NAME       values...
"""


def line(*fields):
    print(*fields, sep="\t")


def plain(shape):
    """Whether a type needs no entry of its own."""
    return shape["type"] not in ("structure", "list", "map") and not shape.get("enum")


def record(service, model):
    shapes, reached = model["shapes"], set()

    def name(ref):
        return shapes[ref["shape"]]["type"] if plain(shapes[ref["shape"]]) else ref["shape"]

    def reach(ref):
        shape = shapes[ref["shape"]]
        if ref["shape"] not in reached and not plain(shape):
            reached.add(ref["shape"])
            for one in [*shape.get("members", {}).values(), shape.get("member"), shape.get("value")]:
                if one:
                    reach(one)

    print()
    line("service", service, model["metadata"]["apiVersion"], model["metadata"]["protocol"])
    for operation in OPERATIONS[service].split():
        said = model["operations"][operation]
        refs = [said.get("input")]
        if service != "sts":
            refs += [said.get("output"), *said.get("errors", [])]
        for ref in filter(None, refs):
            reach(ref)
        line("operation", operation, *(ref["shape"] if ref else "-" for ref in refs + [None][len(refs) - 1:]))
    for shape in sorted(reached):
        s = shapes[shape]
        if s["type"] == "structure":
            line("structure", shape)
            for member, ref in sorted(s["members"].items()):
                more = ["wire=" + ref["locationName"]] if ref.get("locationName", member) != member else []
                more += ["query=" + ref["queryName"]] if "queryName" in ref else []
                more += ["required"] if member in s.get("required", []) else []
                line("", member, name(ref), *more)
        elif s["type"] == "list":
            line("list", shape, name(s["member"]), s["member"].get("locationName", "member"))
        elif s["type"] == "map":
            line("map", shape, name(s["value"]))
        else:
            line("enum", shape, *s["enum"])


models = {}
for path in sys.argv[1:]:
    with (gzip.open if path.endswith(".gz") else open)(path) as file:
        read = json.load(file)
    first = models.setdefault(read["metadata"]["endpointPrefix"], read)
    for part in "operations", "shapes":
        first[part] = {**read[part], **first[part]}
print(HEADER, end="")
for service in sorted(OPERATIONS):
    record(service, models[service])
