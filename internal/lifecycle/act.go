package lifecycle

import "context"

// act changes Slurm where it has to.
func (p *pass) act(ctx context.Context) {
	p.seeHealth(ctx)
	p.judgeHealth(ctx)
	p.decide(ctx, fences)
	p.changeJobs(ctx)
	p.carryOut(ctx, givenUp(p.seen()))
	p.carryOut(ctx, completing(p.seen()))
	p.carryOut(ctx, endedBlocks(p.seen()))
	p.carryOut(ctx, openings(p.seen()))
	p.checkNodes(ctx)
}
