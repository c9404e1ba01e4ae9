#!/usr/bin/env python3
"""Drive the simulator with botocore, a client that shares no code with the AWS SDK for Go.

usage: botocore_drive.py ENDPOINT

ENDPOINT is a simulator with its default scenario, as `capacity-lab aws` prints it. The script buys a Capacity Block,
builds a PCS node group and queue on it, launches into it, meets every refusal that the simulator knows from live
accounts, gives everything back, and checks every answer on the way. It moves the simulator's clock, and leaves the block
that it bought.

A botocore without PCS, or with an older EC2, takes the service models from the folder in AWS_DATA_PATH:
ec2/2016-11-15/service-2.json and pcs/2023-02-10/service-2.json.
"""

import base64
import datetime
import json
import sys
import urllib.request

import botocore
import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError

REGION = "us-east-2"
AWAY = "us-west-2"
CLUSTER = "ml"
TYPE = "p5.48xlarge"
PROFILE = "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes"

passed = failed = 0


def step(text):
    print("--", text)


def check(ok, text):
    """Count one assertion."""
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print("   FAILED:", text)


def equal(got, want, text):
    check(got == want, "%s: got %r, want %r" % (text, got, want))


def refused(code, call, **arguments):
    """Check that a call answers this error code, and return the parsed error."""
    try:
        call(**arguments)
    except ClientError as error:
        equal(error.response["Error"]["Code"], code, "error code of " + error.operation_name)
        check(error.response["Error"].get("Message"), "the error has a message")
        return error.response
    check(False, "a call succeeded that had to answer " + code)
    return {}


def holds(got, want):
    """Tell whether got has every member of want; lists must be equally long."""
    if isinstance(want, dict):
        return isinstance(got, dict) and all(holds(got.get(key), value) for key, value in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(holds, got, want))
    return got == want


class Lab:
    """The clients, and the simulator's clock."""

    def __init__(self, endpoint):
        self.endpoint = endpoint.rstrip("/")
        session = botocore.session.Session()
        session.set_credentials("AKIASIMULATED", "simulated")
        config = Config(retries={"max_attempts": 0}, connect_timeout=10, read_timeout=60)
        self.ec2 = session.create_client("ec2", region_name=REGION, endpoint_url=endpoint, config=config)
        self.away = session.create_client("ec2", region_name=AWAY, endpoint_url=endpoint, config=config)
        self.pcs = session.create_client("pcs", region_name=REGION, endpoint_url=endpoint, config=config)

    def control(self, what, method="POST", **change):
        """Change the simulated AWS itself."""
        request = urllib.request.Request(self.endpoint + "/_sim/" + what, method=method, data=json.dumps(change).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def now(self):
        with urllib.request.urlopen(self.endpoint + "/_sim/clock", timeout=10) as answer:
            return datetime.datetime.fromisoformat(json.load(answer)["now"].replace("Z", "+00:00"))

    def advance(self, duration):
        self.control("clock", advance=duration)

    def set_clock(self, when):
        self.control("clock", set=when.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))

    def reservation(self, identifier):
        return self.ec2.describe_capacity_reservations(CapacityReservationIds=[identifier])["CapacityReservations"][0]


def network(lab):
    """Return subnets by AZ id, and the AZ ids by name."""
    step("regions, zones, network, images")
    names = [r["RegionName"] for r in lab.ec2.describe_regions()["Regions"]]
    check(REGION in names, "%s is among the regions %s" % (REGION, names))
    zones = {z["ZoneName"]: z["ZoneId"] for z in lab.ec2.describe_availability_zones()["AvailabilityZones"]}
    check(len(zones) >= 2, "there are zones: %s" % zones)
    check(lab.ec2.describe_vpcs()["Vpcs"], "there is a VPC")
    subnets = {}
    for s in lab.ec2.describe_subnets()["Subnets"]:
        equal(s["AvailabilityZoneId"], zones[s["AvailabilityZone"]], "zone of " + s["SubnetId"])
        subnets[s["AvailabilityZoneId"]] = s["SubnetId"]
    check(lab.ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"].startswith("sg-"), "a security group")
    images = lab.ec2.describe_images(Owners=["self"])["Images"]
    check(images and images[0]["ImageId"].startswith("ami-"), "an image")
    kind = lab.ec2.describe_instance_types(InstanceTypes=[TYPE])["InstanceTypes"][0]
    check("capacity-block" in kind["SupportedUsageClasses"], "%s is sold in blocks" % TYPE)
    check(kind["VCpuInfo"]["DefaultVCpus"] > 0 and kind["GpuInfo"]["Gpus"][0]["Count"] == 8, "CPUs and GPUs of " + TYPE)
    refused("InvalidInstanceType", lab.ec2.describe_instance_types, InstanceTypes=["p5.49xlarge"])
    return subnets, zones, next(i["ImageId"] for i in images if i["Architecture"] == "x86_64")


def reservations(lab):
    step("reservations")
    pages = lab.ec2.get_paginator("describe_capacity_reservations").paginate(PaginationConfig={"PageSize": 2})
    all_pages = [page["CapacityReservations"] for page in pages]
    everything = [r for page in all_pages for r in page]
    check(len(all_pages) > 1, "%d reservations come in pages" % len(everything))
    equal(len({r["CapacityReservationId"] for r in everything}), len(everything), "ids are distinct")
    for r in everything:
        check(isinstance(r["TotalInstanceCount"], int) and r["State"], "counts and state of " + r["CapacityReservationId"])
        if r.get("ReservationType") == "capacity-block":
            check(isinstance(r["EndDate"], datetime.datetime), "the block has an end")
    active = lab.ec2.describe_capacity_reservations(Filters=[{"Name": "state", "Values": ["active"]}])
    equal({r["State"] for r in active["CapacityReservations"]}, {"active"}, "states behind the filter")
    refused("InvalidCapacityReservationId.NotFound", lab.ec2.describe_capacity_reservations,
            CapacityReservationIds=["cr-0123456789abcdef0"])


def searches(lab):
    step("refused searches")
    order = dict(InstanceType=TYPE, InstanceCount=2, CapacityDurationHours=24)
    search = lab.ec2.describe_capacity_block_offerings

    def message(error, text):
        check(text in error["Error"]["Message"], "%r is in the message %r" % (text, error["Error"]["Message"]))

    message(refused("InvalidParameterValue", search, **dict(order, InstanceType="g6.12xlarge")),
            "not supported for Capacity Blocks in '%s'" % REGION)
    past = lab.now() - datetime.timedelta(days=1)
    message(refused("InvalidParameterValue", search, **dict(order, StartDateRange=past)), "start date is not valid")
    later = lab.now() + datetime.timedelta(days=3)
    refused("InvalidParameterValue", search,
            **dict(order, StartDateRange=later, EndDateRange=later - datetime.timedelta(days=1)))
    refused("InvalidParameterValue", search, **dict(order, CapacityDurationHours=25))
    lab.control("limits", region=REGION, block_quota=0)
    message(refused("CapacityBlockDescribeLimitExceeded", search, **order), "limits for this AWS account are not sufficient")
    check("CapacityBlockOfferings" in lab.away.describe_capacity_block_offerings(**order), "the quota is that of one region")
    lab.control("limits", region=REGION, block_quota=1, search_pause="1h")
    error = refused("CapacityBlockDescribeLimitExceeded", search, **order)
    check("not sufficient" not in error["Error"]["Message"], "the quota is not what is in the way")
    lab.advance("2h")
    check(search(**order)["CapacityBlockOfferings"], "a search after the pause")
    lab.control("limits", region=REGION, search_pause="0s", no_ultraservers=True)
    message(refused("UnauthorizedOperation", search, UltraserverType="u-trn2u-x64", UltraserverCount=1, CapacityDurationHours=24),
            "not authorized to call")
    lab.control("limits", region=REGION, no_ultraservers=False)
    buy_it = dict(InstancePlatform="Linux/UNIX")
    refused("InvalidCapacityBlockOfferingIdNotFound", lab.ec2.purchase_capacity_block,
            CapacityBlockOfferingId="cb-0123456789abcdef0", **buy_it)
    refused("InvalidCapacityBlockOfferingIdMalformed", lab.ec2.purchase_capacity_block, CapacityBlockOfferingId="b-1", **buy_it)


def permissions(lab):
    step("permissions")
    lab.control("policy", document={"Statement": [
        {"Effect": "Allow", "Action": ["ec2:Describe*", "pcs:List*"], "Resource": "*"},
        {"Effect": "Deny", "Action": "ec2:DescribeSubnets", "Resource": "*"}]})
    check(lab.ec2.describe_vpcs()["Vpcs"], "what is allowed")
    check(lab.pcs.list_clusters()["clusters"], "what is allowed at PCS")
    denied = refused("UnauthorizedOperation", lab.ec2.describe_subnets)
    check("ec2:DescribeSubnets" in denied["Error"]["Message"] and "explicit deny" in denied["Error"]["Message"], "the action is named")
    equal(denied["ResponseMetadata"]["HTTPStatusCode"], 403, "status of a denial")
    for dry in (True, False):
        denied = refused("UnauthorizedOperation", lab.ec2.purchase_capacity_block, DryRun=dry, InstancePlatform="Linux/UNIX",
                         CapacityBlockOfferingId="cb-0123456789abcdef0")
        check("ec2:PurchaseCapacityBlock" in denied["Error"]["Message"], "the action is named")
    denied = refused("AccessDeniedException", lab.pcs.get_cluster, clusterIdentifier=CLUSTER)
    check("pcs:GetCluster" in denied["Error"]["Message"], "the action is named")
    lab.control("policy", method="DELETE")
    check(lab.pcs.get_cluster(clusterIdentifier=CLUSTER), "without a policy everything is allowed")


def refused_launches(lab, image, subnet, other_subnet):
    """What EC2 refuses when instances are launched, and not when a template is made."""
    step("refused launches")
    cpu = dict(ImageId=image, InstanceType="c7i.4xlarge", SubnetId=subnet, MinCount=1, MaxCount=1)
    run = lab.ec2.run_instances
    for code, change in (
            ("InvalidKeyPair.NotFound", {"KeyName": "nobody"}),
            ("InvalidPlacementGroup.Unknown", {"Placement": {"GroupName": "nowhere"}}),
            ("InvalidGroup.NotFound", {"SecurityGroupIds": ["sg-0123456789abcdef0"]}),
            ("InvalidAMIID.NotFound", {"ImageId": "ami-0123456789abcdef0"}),
            ("InvalidSubnetID.NotFound", {"SubnetId": "subnet-0123456789abcdef0"}),
            ("InstanceCreditSpecification.NotSupported", {"CreditSpecification": {"CpuCredits": "unlimited"}}),
            ("InvalidParameterValue", {"CpuOptions": {"CoreCount": 63, "ThreadsPerCore": 1}}),
            ("InvalidParameterValue", {"InstanceMarketOptions": {"MarketType": "capacity-block"}}),
            ("InvalidCapacityReservationId.NotFound", {"CapacityReservationSpecification": {
                "CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}}}),
            ("InvalidCapacityReservationId.Malformed", {"CapacityReservationSpecification": {
                "CapacityReservationTarget": {"CapacityReservationId": "r-1"}}}),
            ("InsufficientInstanceCapacity", {"MinCount": 500, "MaxCount": 500}),
            ("InvalidLaunchTemplateId.NotFound", {"LaunchTemplate": {"LaunchTemplateId": "lt-0123456789abcdef0"}})):
        refused(code, run, **dict(cpu, **change))
    interface = {"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "efa", "SubnetId": subnet}
    with_efa = dict(cpu, NetworkInterfaces=[interface])
    del with_efa["SubnetId"]
    refused("Unsupported", run, **with_efa)

    # A launch that failed binds its token to its parameters; one whose instances are gone gives no new ones.
    refused("InvalidKeyPair.NotFound", run, **dict(cpu, KeyName="nobody", ClientToken="drive-failed"))
    refused("IdempotentParameterMismatch", run, **dict(cpu, ClientToken="drive-failed"))
    refused("IdempotentParameterMismatch", run, **dict(cpu, KeyName="nobody", SubnetId=other_subnet, ClientToken="drive-failed"))
    made = run(ClientToken="drive-ended", **cpu)["Instances"][0]["InstanceId"]
    lab.advance("2m")
    lab.ec2.terminate_instances(InstanceIds=[made])
    lab.advance("10m")
    refused("IdempotentInstanceTerminated", run, ClientToken="drive-ended", **cpu)

    # EC2 does not show at once what it has made.
    lab.control("lag", instances="1m", templates="1m", tags="1m")
    made = run(**cpu)["Instances"][0]["InstanceId"]
    refused("InvalidInstanceID.NotFound", lab.ec2.describe_instances, InstanceIds=[made])
    new = lab.ec2.create_launch_template(LaunchTemplateName="drive-late", LaunchTemplateData={"ImageId": image})
    new = new["LaunchTemplate"]["LaunchTemplateId"]
    refused("InvalidLaunchTemplateId.NotFound", lab.ec2.describe_launch_template_versions, LaunchTemplateId=new)
    lab.advance("2m")
    lab.control("lag", instances="0s", templates="0s", tags="0s")
    equal(len(lab.ec2.describe_instances(InstanceIds=[made])["Reservations"]), 1, "launches that are shown later")
    lab.ec2.delete_launch_template(LaunchTemplateId=new)
    lab.ec2.terminate_instances(InstanceIds=[made])


def buy(lab, zones):
    """Buy the next block of two instances for a day; it is not paid yet."""
    step("offerings and purchase")
    offers = lab.ec2.describe_capacity_block_offerings(InstanceType=TYPE, InstanceCount=2, CapacityDurationHours=24)
    offers = offers["CapacityBlockOfferings"]
    check(offers, "blocks are for sale")
    for o in offers:
        check(float(o["UpfrontFee"]) > 0 and o["CurrencyCode"] == "USD", "fee of " + o["CapacityBlockOfferingId"])
        check(o["StartDate"] < o["EndDate"] and o["AvailabilityZone"] in zones, "window and zone of the offering")
        equal((o["InstanceType"], o["InstanceCount"]), (TYPE, 2), "type and count")
        equal((o["EndDate"].hour, o["EndDate"].minute), (11, 30), "blocks end at 11:30 UTC")
    # One that starts at once may be short, as it ends at the next 11:30.
    offer = min((o for o in offers if o["EndDate"] - o["StartDate"] >= datetime.timedelta(hours=12)), key=lambda o: o["StartDate"])
    refused("DryRunOperation", lab.ec2.purchase_capacity_block, DryRun=True, InstancePlatform="Linux/UNIX",
            CapacityBlockOfferingId=offer["CapacityBlockOfferingId"])
    bought = lab.ec2.purchase_capacity_block(
        CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX",
        TagSpecifications=[{"ResourceType": "capacity-reservation", "Tags": [{"Key": "team", "Value": "nlp"}]}])
    block = bought["CapacityReservation"]
    equal((block["State"], block["ReservationType"]), ("payment-pending", "capacity-block"), "state and type")
    equal((block["StartDate"], block["EndDate"]), (offer["StartDate"], offer["EndDate"]), "the window that was offered")
    check(bought["CapacityBlocks"][0]["CapacityBlockId"].startswith("cb-"), "id of the block")
    return block


def template(lab, name, image, block):
    step("launch template " + name)
    data = {
        "ImageId": image, "InstanceType": TYPE,
        "InstanceMarketOptions": {"MarketType": "capacity-block"},
        "CapacityReservationSpecification": {
            "CapacityReservationTarget": {"CapacityReservationId": block["CapacityReservationId"]}},
        "NetworkInterfaces": [{"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "efa"}],
        "MetadataOptions": {"HttpTokens": "required", "InstanceMetadataTags": "enabled"},
        "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "nlp"}]}],
    }
    made = lab.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)["LaunchTemplate"]
    versions = lab.ec2.describe_launch_template_versions(LaunchTemplateId=made["LaunchTemplateId"], Versions=["$Latest"])
    version = versions["LaunchTemplateVersions"][0]
    equal(version["VersionNumber"], 1, "version")
    for member, value in data.items():
        got = version["LaunchTemplateData"].get(member)
        check(holds(got, value), "%s holds %r: %r" % (member, value, got))
    refused("InvalidLaunchTemplateName.AlreadyExistsException", lab.ec2.create_launch_template,
            LaunchTemplateName=name, LaunchTemplateData=data)
    return made["LaunchTemplateId"]


def node_group(lab, subnet, other_subnet, template_id, block):
    step("node group")
    clusters = lab.pcs.list_clusters()["clusters"]
    check(CLUSTER in [c["name"] for c in clusters], "the cluster is listed")
    cluster = lab.pcs.get_cluster(clusterIdentifier=CLUSTER)["cluster"]
    check(cluster["status"] == "ACTIVE" and cluster["endpoints"][0]["port"] == "6817", "the cluster has a controller")
    check(isinstance(cluster["createdAt"], datetime.datetime), "a time of PCS")
    request = dict(
        clusterIdentifier=CLUSTER, computeNodeGroupName="drive-a", subnetIds=[subnet], purchaseOption="CAPACITY_BLOCK",
        customLaunchTemplate={"id": template_id, "version": "1"}, iamInstanceProfileArn=PROFILE,
        scalingConfiguration={"minInstanceCount": 2, "maxInstanceCount": 2}, instanceConfigs=[{"instanceType": TYPE}],
        clientToken="drive-token-1", tags={"made-by": "drive"})
    error = refused("ValidationException", lab.pcs.create_compute_node_group, **request)
    equal(error.get("reason"), "fieldValidationFailed", "reason of the ValidationException")
    check("payment-pending" in error["fieldList"][0]["message"], "the field tells the state of the block")
    lab.advance("10m")
    equal(lab.reservation(block["CapacityReservationId"])["State"], "scheduled", "state after the payment")
    refused("ValidationException", lab.pcs.create_compute_node_group, **dict(request, subnetIds=[other_subnet]))
    refused("ValidationException", lab.pcs.create_compute_node_group,
            **dict(request, scalingConfiguration={"minInstanceCount": 3, "maxInstanceCount": 3}))
    refused("ServiceQuotaExceededException", lab.pcs.create_compute_node_group, **dict(
        request, purchaseOption="ONDEMAND", scalingConfiguration={"minInstanceCount": 0, "maxInstanceCount": 1000},
        customLaunchTemplate=lab.pcs.get_compute_node_group(
            clusterIdentifier=CLUSTER, computeNodeGroupIdentifier="compute")["computeNodeGroup"]["customLaunchTemplate"],
        amiId=lab.ec2.describe_images(Owners=["self"])["Images"][0]["ImageId"], clientToken="drive-token-2"))
    script = lab.ec2.create_launch_template_version(
        LaunchTemplateId=template_id, SourceVersion="1",
        LaunchTemplateData={"UserData": base64.b64encode(b"#!/bin/sh\ntrue\n").decode()})["LaunchTemplateVersion"]
    error = refused("ValidationException", lab.pcs.create_compute_node_group, **dict(
        request, customLaunchTemplate={"id": template_id, "version": str(script["VersionNumber"])}, clientToken="drive-token-3"))
    check("MIME" in error["fieldList"][0]["message"], "user data of PCS is MIME")
    lab.control("group-failures", count=1, code="DriveFailure", message="Nobody knows why.")
    failed_group = lab.pcs.create_compute_node_group(**dict(request, clientToken="drive-token-4"))["computeNodeGroup"]
    lab.advance("2m")
    which = dict(clusterIdentifier=CLUSTER, computeNodeGroupIdentifier=failed_group["id"])
    got = lab.pcs.get_compute_node_group(**which)["computeNodeGroup"]
    equal((got["status"], got["errorInfo"]), ("CREATE_FAILED", [{"code": "DriveFailure", "message": "Nobody knows why."}]),
          "a group that could not be created")
    lab.pcs.delete_compute_node_group(**which)
    lab.advance("2m")
    group = lab.pcs.create_compute_node_group(**request)["computeNodeGroup"]
    equal(group["status"], "CREATING", "status at first")
    equal(lab.pcs.create_compute_node_group(**request)["computeNodeGroup"]["id"], group["id"], "the same token, the same group")
    refused("ConflictException", lab.pcs.create_queue, clusterIdentifier=CLUSTER, queueName="drive",
            computeNodeGroupConfigurations=[{"computeNodeGroupId": group["id"]}])
    lab.advance("2m")
    got = lab.pcs.get_compute_node_group(clusterIdentifier=CLUSTER, computeNodeGroupIdentifier="drive-a")["computeNodeGroup"]
    equal((got["status"], got["purchaseOption"]), ("ACTIVE", "CAPACITY_BLOCK"), "the group after two minutes")
    change = dict(clusterIdentifier=CLUSTER, computeNodeGroupIdentifier=group["id"],
                  scalingConfiguration={"minInstanceCount": 0, "maxInstanceCount": 2})
    lab.control("group-failures", count=1, code="DriveFailure", message="Nobody knows why.")
    equal(lab.pcs.update_compute_node_group(**change)["computeNodeGroup"]["status"], "UPDATING", "status during an update")
    conflict = refused("ConflictException", lab.pcs.update_compute_node_group, **change)
    equal((conflict.get("resourceId"), conflict.get("resourceType")), (group["id"], "COMPUTE_NODE_GROUP"), "what is UPDATING")
    lab.advance("2m")
    failed_group = lab.pcs.get_compute_node_group(
        clusterIdentifier=CLUSTER, computeNodeGroupIdentifier=group["id"])["computeNodeGroup"]
    equal((failed_group["status"], failed_group["errorInfo"][0]["code"]), ("UPDATE_FAILED", "DriveFailure"), "a failed update")
    lab.pcs.update_compute_node_group(**dict(change, scalingConfiguration={"minInstanceCount": 2, "maxInstanceCount": 2}))
    lab.advance("2m")
    managed = lab.ec2.describe_launch_templates(LaunchTemplateNames=["pcs-%s-do-not-delete" % group["id"]])["LaunchTemplates"]
    equal(len(managed), 1, "managed launch templates")
    return got


def queue(lab, group):
    step("queue, tags, pages")
    made = lab.pcs.create_queue(clusterIdentifier=CLUSTER, queueName="drive",
                                computeNodeGroupConfigurations=[{"computeNodeGroupId": group["id"]}])["queue"]
    lab.advance("2m")
    got = lab.pcs.get_queue(clusterIdentifier=CLUSTER, queueIdentifier=made["id"])["queue"]
    equal((got["status"], got["computeNodeGroupConfigurations"]),
          ("ACTIVE", [{"computeNodeGroupId": group["id"]}]), "the queue after two minutes")
    conflict = refused("ConflictException", lab.pcs.delete_compute_node_group,
                       clusterIdentifier=CLUSTER, computeNodeGroupIdentifier=group["id"])
    equal(conflict.get("resourceId"), group["id"], "resource of the ConflictException")
    lab.pcs.tag_resource(resourceArn=group["arn"], tags={"team": "nlp"})
    equal(lab.pcs.list_tags_for_resource(resourceArn=group["arn"])["tags"], {"made-by": "drive", "team": "nlp"}, "tags")
    lab.pcs.untag_resource(resourceArn=group["arn"], tagKeys=["team"])
    first = lab.pcs.list_compute_node_groups(clusterIdentifier=CLUSTER, maxResults=1)
    second = lab.pcs.list_compute_node_groups(clusterIdentifier=CLUSTER, maxResults=1, nextToken=first["nextToken"])
    check(first["computeNodeGroups"][0]["id"] != second["computeNodeGroups"][0]["id"], "two pages, two groups")
    missing = refused("ResourceNotFoundException", lab.pcs.get_queue, clusterIdentifier=CLUSTER, queueIdentifier="nowhere")
    equal(missing.get("resourceId"), "nowhere", "resource of the ResourceNotFoundException")
    return made


def launch(lab, template_id, subnet, block):
    step("launch")
    order = dict(LaunchTemplate={"LaunchTemplateId": template_id, "Version": "1"}, SubnetId=subnet)
    # A template with network interfaces leaves no room for a subnet beside them.
    refused("InvalidParameterCombination", lab.ec2.run_instances, MinCount=1, MaxCount=1, **order)
    del order["SubnetId"]
    order["NetworkInterfaces"] = [{"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "efa", "SubnetId": subnet}]
    refused("InvalidCapacityReservationState.PendingActivation", lab.ec2.run_instances, MinCount=1, MaxCount=1, **order)
    lab.set_clock(block["StartDate"] + datetime.timedelta(minutes=1))
    now = lab.reservation(block["CapacityReservationId"])
    equal((now["State"], now["TotalInstanceCount"], now["AvailableInstanceCount"]), ("active", 2, 2), "the block at its start")
    refused("ReservationCapacityExceeded", lab.ec2.run_instances, MinCount=3, MaxCount=3, **order)
    made = lab.ec2.run_instances(MinCount=2, MaxCount=2, ClientToken="drive-launch", **order)
    ids = [i["InstanceId"] for i in made["Instances"]]
    equal([i["AmiLaunchIndex"] for i in made["Instances"]], [0, 1], "launch indexes")
    again = lab.ec2.run_instances(MinCount=2, MaxCount=2, ClientToken="drive-launch", **order)
    equal([i["InstanceId"] for i in again["Instances"]], ids, "the same token, the same instances")
    lab.ec2.create_tags(Resources=ids, Tags=[{"Key": "node", "Value": "drive-a-1"}])
    lab.advance("2m")
    found = lab.ec2.describe_instances(InstanceIds=ids)["Reservations"]
    for i in [i for r in found for i in r["Instances"]]:
        equal((i["State"]["Name"], i["State"]["Code"]), ("running", 16), "state")
        equal(i["CapacityReservationId"], block["CapacityReservationId"], "reservation of the instance")
        equal(i["InstanceLifecycle"], "capacity-block", "lifecycle")
        check({"Key": "node", "Value": "drive-a-1"} in i["Tags"] and {"Key": "team", "Value": "nlp"} in i["Tags"], "tags")
        check(isinstance(i["LaunchTime"], datetime.datetime) and i["PrivateIpAddress"], "launch time and address")
    equal(lab.reservation(block["CapacityReservationId"])["AvailableInstanceCount"], 0, "free places of the full block")
    status = lab.ec2.describe_capacity_block_status()["CapacityBlockStatuses"]
    check(any(s["TotalCapacity"] == 2 for s in status), "the status shows the block: %s" % status)
    changes = lab.ec2.terminate_instances(InstanceIds=ids)["TerminatingInstances"]
    equal([c["PreviousState"]["Name"] for c in changes], ["running", "running"], "states before the termination")
    lab.advance("10m")
    equal(lab.reservation(block["CapacityReservationId"])["AvailableInstanceCount"], 2, "free places after the cleaning")


def extend(lab, block):
    step("extension")
    identifier = block["CapacityReservationId"]
    offers = lab.ec2.describe_capacity_block_extension_offerings(
        CapacityReservationId=identifier, CapacityBlockExtensionDurationHours=24)["CapacityBlockExtensionOfferings"]
    check(offers, "an extension is for sale")
    equal(offers[0]["CapacityBlockExtensionEndDate"] - block["EndDate"], datetime.timedelta(days=1), "length of the extension")
    bought = lab.ec2.purchase_capacity_block_extension(
        CapacityReservationId=identifier, CapacityBlockExtensionOfferingId=offers[0]["CapacityBlockExtensionOfferingId"])
    equal(bought["CapacityBlockExtensions"][0]["CapacityBlockExtensionStatus"], "payment-pending", "status at first")
    equal(lab.reservation(identifier)["EndDate"], block["EndDate"], "the end stays until the payment")
    lab.advance("10m")
    equal(lab.reservation(identifier)["EndDate"], offers[0]["CapacityBlockExtensionEndDate"], "the end after the payment")
    history = lab.ec2.describe_capacity_block_extension_history(CapacityReservationIds=[identifier])["CapacityBlockExtensions"]
    equal([e["CapacityBlockExtensionStatus"] for e in history], ["payment-succeeded"], "history")


def on_demand(lab):
    step("On-Demand Capacity Reservation")
    order = dict(InstanceType="c7i.4xlarge", InstancePlatform="Linux/UNIX", AvailabilityZone=REGION + "a", InstanceCount=2,
                 InstanceMatchCriteria="targeted", EndDateType="limited", ClientToken="drive-odcr",
                 EndDate=lab.reservation_end, TagSpecifications=[
                     {"ResourceType": "capacity-reservation", "Tags": [{"Key": "team", "Value": "nlp"}]}])
    made = lab.ec2.create_capacity_reservation(**order)["CapacityReservation"]
    equal(lab.ec2.create_capacity_reservation(**order)["CapacityReservation"]["CapacityReservationId"],
          made["CapacityReservationId"], "the same token, the same reservation")
    equal(lab.ec2.modify_capacity_reservation(CapacityReservationId=made["CapacityReservationId"], InstanceCount=1)["Return"],
          True, "answer to the change")
    equal(lab.reservation(made["CapacityReservationId"])["TotalInstanceCount"], 1, "count after the change")
    equal(lab.ec2.cancel_capacity_reservation(CapacityReservationId=made["CapacityReservationId"])["Return"], True,
          "answer to the cancellation")
    equal(lab.reservation(made["CapacityReservationId"])["State"], "cancelled", "state after it")


def clean(lab, group, made_queue, template_id):
    step("delete")
    lab.pcs.update_queue(clusterIdentifier=CLUSTER, queueIdentifier=made_queue["id"], computeNodeGroupConfigurations=[])
    lab.advance("2m")
    lab.pcs.delete_compute_node_group(clusterIdentifier=CLUSTER, computeNodeGroupIdentifier=group["id"])
    lab.pcs.delete_queue(clusterIdentifier=CLUSTER, queueIdentifier=made_queue["id"])
    lab.advance("2m")
    refused("ResourceNotFoundException", lab.pcs.get_compute_node_group,
            clusterIdentifier=CLUSTER, computeNodeGroupIdentifier=group["id"])
    lab.ec2.delete_launch_template(LaunchTemplateId=template_id)
    refused("InvalidLaunchTemplateId.NotFound", lab.ec2.describe_launch_template_versions, LaunchTemplateId=template_id)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("botocore", botocore.__version__)
    lab = Lab(sys.argv[1])
    subnets, zones, image = network(lab)
    reservations(lab)
    searches(lab)
    permissions(lab)
    refused_launches(lab, image, subnets["use2-az1"], subnets["use2-az2"])
    block = buy(lab, zones)
    lab.reservation_end = block["EndDate"]
    zone = zones[block["AvailabilityZone"]] if block.get("AvailabilityZone") else block["AvailabilityZoneId"]
    other = next(subnet for z, subnet in subnets.items() if z != zone)
    template_id = template(lab, "drive-" + block["CapacityReservationId"], image, block)
    group = node_group(lab, subnets[zone], other, template_id, block)
    made_queue = queue(lab, group)
    launch(lab, template_id, subnets[zone], block)
    extend(lab, block)
    on_demand(lab)
    clean(lab, group, made_queue, template_id)
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
