package awssim

import (
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// profileARN is the pattern of InstanceProfileArn in the service model.
var profileARN = regexp.MustCompile(
	`^arn:aws([a-zA-Z-]{0,10})?:iam::[0-9]{12}:instance-profile/([!-~]{1,510}/)?([\w+=,.@-]{1,128})$`,
)

// passedRole is the role of an instance profile that PCS takes: its name begins with AWSPCS, or its path has /aws-pcs/
// (AWS PCS User Guide, "IAM instance profiles"). Here a role has the name and path of its profile, as where the console
// makes both.
var passedRole = regexp.MustCompile(`:instance-profile/(.*/)?(aws-pcs/.*|AWSPCS[^/]*)$`)

// checkGroup refuses a node group that PCS would refuse. It tells every field that is wrong. old is the group before an
// update, nil for a new one.
func checkGroup(cl *pcsCluster, g, old *pcsGroup) error {
	var v pcsValidation
	checkPCSName(&v, "computeNodeGroupName", g.Name, 25)
	checkPCSTags(&v, g.tags)
	checkScaling(&v, g.Scaling)

	if !profileARN.MatchString(g.InstanceProfile) {
		v.add("iamInstanceProfileArn", "%q is not the ARN of an instance profile", g.InstanceProfile)
	} else if !cl.region.sim.hasProfile(g.InstanceProfile) {
		v.add("iamInstanceProfileArn", "the instance profile %q does not exist", g.InstanceProfile)
	} else if !passedRole.MatchString(g.InstanceProfile) {
		v.add("iamInstanceProfileArn", "the role of the instance profile %q must have a name that begins with AWSPCS, "+
			"or the path /aws-pcs/", g.InstanceProfile)
	}

	checkSettings(&v, g.SlurmConfiguration, groupParameters)

	if _, ok := g.SlurmConfiguration.number("scaleDownIdleTimeInSeconds"); ok &&
		slurmVersion(cl.Scheduler.Version) < 2511 {
		v.add(
			"slurmConfiguration.scaleDownIdleTimeInSeconds",
			"needs Slurm 25.11, the cluster has %s",
			cl.Scheduler.Version,
		)
	}

	checkInstanceTypes(&v, cl.region, g)
	subnets := checkSubnets(&v, cl, g)

	template, version, err := cl.region.templateOf(g)
	if err != nil {
		v.add(
			"customLaunchTemplate",
			"the launch template %s or its version %q does not exist",
			g.LaunchTemplate.ID,
			g.LaunchTemplate.Version,
		)

		return v.err()
	}

	g.LaunchTemplate.Version = version // $Latest and $Default are pinned to what they mean now
	checkImage(&v, cl.region, g, template)

	if userData, _ := base64.StdEncoding.DecodeString(template.UserData); len(userData) > 0 && !isMultipart(userData) {
		// AWS PCS User Guide, "Working with Amazon EC2 user data". AWS may refuse it here, or let nodes fail: nobody
		// knows.
		v.add("customLaunchTemplate", "the user data of the launch template is not in the MIME multi-part format")
	}

	if v.err() == nil {
		// A group outlives its block, and can still be scaled down then: the state counts for a new choice only.
		chosen := old == nil || old.LaunchTemplate != g.LaunchTemplate || old.PurchaseOption != g.PurchaseOption
		checkPurchase(&v, cl, g, template, subnets, chosen)
	}

	return v.err()
}

// checkScaling wants a static group (minimum = maximum) or a dynamic one (minimum 0): AWS PCS User Guide,
// "Creating a compute node group": PCS does not support a mix of both.
func checkScaling(v *pcsValidation, scaling pcsScaling) {
	switch {
	case scaling.Min < 0 || scaling.Max < 0:
		v.add("scalingConfiguration", "the counts cannot be negative")
	case scaling.Min > scaling.Max:
		v.add("scalingConfiguration", "minInstanceCount %d is more than maxInstanceCount %d", scaling.Min, scaling.Max)
	case scaling.Min != 0 && scaling.Min != scaling.Max:
		v.add(
			"scalingConfiguration",
			"minInstanceCount %d must be 0 (dynamic) or equal to maxInstanceCount %d (static): a mix is not supported",
			scaling.Min,
			scaling.Max,
		)
	}
}

func checkInstanceTypes(v *pcsValidation, r *region, g *pcsGroup) {
	if len(g.Instances) == 0 {
		v.add("instanceConfigs", "at least one instance type is needed")
	}

	for _, config := range g.Instances {
		if !r.offers(config.Type, "") {
			v.add("instanceConfigs", "the instance type %q does not exist in %s", config.Type, r.name)
		}
	}
}

// checkSubnets returns the subnets of the group that exist. All must be in the VPC of the cluster.
func checkSubnets(v *pcsValidation, cl *pcsCluster, g *pcsGroup) (subnets []*subnet) {
	if len(g.SubnetIDs) == 0 {
		v.add("subnetIds", "at least one subnet is needed")
	}

	home := cl.region.subnet(cl.Networking.SubnetIDs[0])
	for _, id := range g.SubnetIDs {
		sn := cl.region.subnet(id)
		switch {
		case sn == nil:
			v.add("subnetIds", "the subnet %s does not exist", id)
		case sn.vpc != home.vpc:
			v.add("subnetIds", "the subnet %s is in %s, the cluster is in %s", id, sn.vpc, home.vpc)
		default:
			subnets = append(subnets, sn)
		}
	}

	return subnets
}

func checkImage(v *pcsValidation, r *region, g *pcsGroup, template launchData) {
	switch image := g.AMI; {
	case image == "" && template.ImageId == "":
		v.add("amiId", "there is no AMI: neither amiId nor the launch template names one")
	case image != "" && r.image(image) == nil:
		v.add("amiId", "the AMI %s does not exist", image)
	case image == "" && r.image(template.ImageId) == nil:
		v.add("customLaunchTemplate", "the AMI %s of the launch template does not exist", template.ImageId)
	}
}

// pcsPurchase are the demands of a purchase option on the launch template and on the reservation that it targets.
type pcsPurchase struct {
	market      string // MarketType in the launch template; "" for none
	kind        string // of the reservation
	mustTarget  bool   // the launch template has to name a reservation
	states      []string
	sizeCaps    bool // maxInstanceCount may not exceed the reservation's size
	slurm       int  // oldest version
	description string
}

// Sources: AWS PCS User Guide, "Using Amazon EC2 Capacity Blocks for ML" and "Using ODCRs".
var pcsPurchases = map[string]pcsPurchase{
	"CAPACITY_BLOCK": {
		market:      "capacity-block",
		kind:        kindBlock,
		mustTarget:  true,
		states:      []string{"scheduled", "active"},
		sizeCaps:    true,
		slurm:       2405,
		description: "a Capacity Block",
	},
	"ONDEMAND": {
		kind:        kindODCR,
		states:      []string{"active", "pending"},
		description: "an On-Demand Capacity Reservation",
	},
}

// checkPurchase compares the purchase option, the launch template and the reservation.
func checkPurchase(v *pcsValidation, cl *pcsCluster, g *pcsGroup, template launchData, subnets []*subnet, chosen bool) {
	want := pcsPurchases[g.PurchaseOption]
	if version := cl.Scheduler.Version; slurmVersion(version) < want.slurm {
		v.add(
			"purchaseOption",
			"%s needs Slurm %d.%02d, the cluster has %s",
			g.PurchaseOption,
			want.slurm/100,
			want.slurm%100,
			version,
		)
	}

	if template.marketType() != want.market {
		v.add(
			"customLaunchTemplate",
			"InstanceMarketOptions.MarketType is %q in the launch template, purchaseOption %s needs %q",
			template.marketType(),
			g.PurchaseOption,
			want.market,
		)
	}

	if want.mustTarget && template.InstanceType == "" {
		v.add("customLaunchTemplate", "the launch template must name the InstanceType of the reservation")
	}

	switch {
	case template.target().CapacityReservationId != "":
		checkReservation(v, cl.region, g, template, want, subnets, chosen)
	case template.target().CapacityReservationResourceGroupArn != "" && !want.mustTarget:
		// AWS PCS User Guide, "Using ODCRs". Whether PCS looks for the group is not known.
		if arn := template.target().CapacityReservationResourceGroupArn; cl.region.reservationGroup(arn) == nil {
			v.add("customLaunchTemplate", "the Capacity Reservation resource group %s does not exist", arn)
		}
	case want.mustTarget:
		v.add(
			"customLaunchTemplate",
			"CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId is missing in the "+
				"launch template",
		)
	}
}

func checkReservation(
	v *pcsValidation,
	r *region,
	g *pcsGroup,
	template launchData,
	want pcsPurchase,
	subnets []*subnet,
	chosen bool,
) {
	const field = "customLaunchTemplate"

	res, err := r.reservation(template.target().CapacityReservationId)
	if err != nil {
		v.add(field, "the Capacity Reservation %s does not exist", template.target().CapacityReservationId)
		return
	}

	id := res.ID
	if res.kind != want.kind {
		v.add(
			"purchaseOption",
			"%s is for %s, and %s is of the kind %s",
			g.PurchaseOption,
			want.description,
			id,
			res.kind,
		)

		return
	}

	if chosen && !slices.Contains(want.states, res.state) {
		v.add(
			field,
			"%s %s is in state %s, not in one of %s",
			want.description,
			id,
			res.state,
			strings.Join(want.states, ", "),
		)
	}

	if template.InstanceType != "" && template.InstanceType != res.Type {
		v.add(field, "the launch template has InstanceType %s, %s is for %s", template.InstanceType, id, res.Type)
	}

	for _, config := range g.Instances {
		if config.Type != res.Type {
			v.add("instanceConfigs", "the instance type is %s, %s is for %s", config.Type, id, res.Type)
		}
	}

	if want.sizeCaps && g.Scaling.Max > res.count {
		v.add(
			"scalingConfiguration",
			"maxInstanceCount %d is more than the %d instances of %s",
			g.Scaling.Max,
			res.count,
			id,
		)
	}

	if !slices.ContainsFunc(subnets, func(sn *subnet) bool { return sn.zone.id == res.zone.id }) {
		v.add("subnetIds", "none of the subnets is in the Availability Zone %s of %s", res.zone.id, id)
	}
}

// pcsSettings is a structure of PCS that the simulator keeps and gives back without reading most of it. Its shape was
// checked with the request.
type pcsSettings map[string]any

// merge lays an update over the settings: structures are merged, anything else is replaced.
func (s pcsSettings) merge(update pcsSettings) pcsSettings {
	merged := pcsSettings{}
	maps.Copy(merged, s)

	for name, value := range update {
		if value == nil {
			continue
		}

		newer, isStructure := value.(map[string]any)
		older, wasStructure := merged[name].(map[string]any)
		if isStructure && wasStructure {
			value = map[string]any(pcsSettings(older).merge(newer))
		}

		merged[name] = value
	}

	return merged
}

// number reads an integer member; ok is false if it is not there.
func (s pcsSettings) number(name string) (n int, ok bool) {
	f, ok := s[name].(float64) // as encoding/json decodes numbers
	return int(f), ok
}

// custom reads slurmCustomSettings as a map.
func (s pcsSettings) custom() map[string]string {
	list, _ := s["slurmCustomSettings"].([]any)
	custom := map[string]string{}
	for _, item := range list {
		setting, _ := item.(map[string]any)
		name, _ := setting["parameterName"].(string)
		custom[name], _ = setting["parameterValue"].(string)
	}

	return custom
}

// Names of Slurm parameters that PCS lets users set: AWS PCS User Guide, "Configuring Slurm settings".
var (
	clusterParameters = strings.Fields(`AccountingStorageEnforce AccountingStorageTRES AccountingStoreFlags
		AuthAltParameters CliFilterParameters CliFilterPlugins CommunicationParameters DefMemPerCPU Epilog
		EnforcePartLimits FairShareDampeningFactor FirstJobId HealthCheckInterval HealthCheckNodeState
		HealthCheckProgram JobRequeue LaunchParameters Licenses MetricsType MinJobAge OverTimeLimit
		PreemptExemptTime PreemptMode PreemptParameters PreemptType PriorityCalcPeriod PriorityDecayHalfLife
		PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityUsageResetPeriod PriorityWeightAge
		PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition
		PriorityWeightQOS PriorityWeightTRES Prolog PrologFlags RequeueExit RequeueExitHold
		SchedulerParameters SelectTypeParameters SrunPortRange TaskEpilog TaskPluginParam TaskProlog
		TrackWCKey UnkillableStepProgram UnkillableStepTimeout`)
	groupParameters = strings.Fields(`CpuSpecList Features Gres MemSpecLimit Parameters RealMemory Sockets Weight`)
	queueParameters = strings.Fields(`AllowAccounts AllowQos Default DefaultTime DenyAccounts DenyQos ExclusiveUser
		GraceTime MaxTime OverSubscribe OverTimeLimit PowerDownOnIdle PreemptMode PriorityJobFactor
		PriorityTier QOS TRESBillingWeights`)
)

// checkSettings refuses Slurm parameters that PCS does not know for this kind of resource.
func checkSettings(v *pcsValidation, s pcsSettings, known []string) {
	const field = "slurmConfiguration.slurmCustomSettings"

	custom := s.custom()
	for _, name := range slices.Sorted(maps.Keys(custom)) {
		if !slices.Contains(known, name) {
			v.add(field, "the Slurm parameter %q is not supported here", name)
		}
	}

	if plugin, ok := custom["CliFilterPlugins"]; ok && plugin != "cli_filter/lua" {
		v.add(field, "CliFilterPlugins must be cli_filter/lua, not %q", plugin)
	}

	if age, ok := custom["MinJobAge"]; ok {
		if n, err := strconv.Atoi(age); err != nil || n < 5 {
			v.add(field, "MinJobAge must be 5 or more, not %q", age)
		}
	}
}
