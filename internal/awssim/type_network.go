package awssim

// network is the network of a type in DescribeInstanceTypes.
type network struct {
	cards, perCard, efa int
	enaOnly             []int // cards that take no EFA
}

// knownNetworks are the types with several network cards that matter here, as DescribeInstanceTypes showed them to
// getmoto/moto (moto/ec2/resources/instance_types.json.gz of version 5.2.1; trn2u.48xlarge, which that lacks, as
// trn2.48xlarge). Of these figures the EC2 User Guide
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html) has the 32 cards of P5 and P5e. That
// card 0 of p6-b300 takes no EFA: https://github.com/aws/aws-parallelcluster/issues/7143. DescribeInstanceTypes has a
// field for what a card takes (interfaceTypes), but nobody recorded its answer, so types say it only where the scenario
// has card_types.
var knownNetworks = map[string]network{
	"p4d.24xlarge":     {cards: 4, perCard: 15, efa: 4},
	"p4de.24xlarge":    {cards: 4, perCard: 15, efa: 4},
	"p5.4xlarge":       {cards: 1, perCard: 4, efa: 1},
	"p5.48xlarge":      {cards: 32, perCard: 2, efa: 32},
	"p5e.48xlarge":     {cards: 32, perCard: 2, efa: 32},
	"p5en.48xlarge":    {cards: 16, perCard: 4, efa: 16},
	"p6-b200.48xlarge": {cards: 8, perCard: 4, efa: 8},
	"p6-b300.48xlarge": {cards: 17, perCard: 4, efa: 16, enaOnly: []int{0}},
	"trn1.32xlarge":    {cards: 8, perCard: 5, efa: 8},
	"trn2.48xlarge":    {cards: 16, perCard: 2, efa: 16},
	"trn2u.48xlarge":   {cards: 16, perCard: 2, efa: 16},
	"g6.12xlarge":      {cards: 1, perCard: 8, efa: 1},
	"c7i.4xlarge":      {cards: 1, perCard: 8},
}
