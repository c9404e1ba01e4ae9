package slurmlab

import (
	"errors"
	"fmt"
	"net"
)

// Clusters take their ports in blocks below 32768, where Linux begins to hand
// out ports for outgoing connections (ip_local_port_range).
const (
	firstPort  = 12000
	portBlocks = 40
	blockSize  = 500

	controllerPort = 0  // offsets in a block
	defaultPort    = 1  // SlurmdPort: never bound, every node has its own
	accountingPort = 2  // slurmdbd's
	firstNodePort  = 10 // the nodes' own
)

// portBlock is a range of ports that one cluster on this machine owns.
type portBlock struct {
	first int
	lock  net.Listener
}

// takePorts takes a block that no other cluster owns and whose ports nobody
// listens on. An abstract unix socket is the lock: it is no file, and the
// kernel frees it with the process.
func takePorts() (*portBlock, error) {
	for i := range portBlocks {
		lock, err := net.Listen("unix", fmt.Sprintf("@slurmlab-ports-%d", firstPort+i*blockSize))
		if err != nil {
			continue
		}
		block := &portBlock{first: firstPort + i*blockSize, lock: lock}
		if block.free() {
			return block, nil
		}
		block.release()
	}
	return nil, errors.New("no free block of ports for a Slurm cluster: are clusters left over on this machine?")
}

// free tells whether nothing listens in the block, such as a slurmd that a
// killed program left behind. Ports of programs outside this package are
// found as well, but only at this moment.
func (b *portBlock) free() bool {
	for port := b.first; port < b.first+blockSize; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

func (b *portBlock) release() { b.lock.Close() }

// assign gives every node name a port; names that have one in old keep it.
func (b *portBlock) assign(names []string, old map[string]int) (map[string]int, error) {
	ports := make(map[string]int, len(names))
	used := map[int]bool{}
	for _, name := range names {
		if port, ok := old[name]; ok {
			ports[name] = port
			used[port] = true
		}
	}
	next := b.first + firstNodePort
	for _, name := range names {
		if _, ok := ports[name]; ok {
			continue
		}
		for used[next] {
			next++
		}
		if next >= b.first+blockSize {
			return nil, fmt.Errorf("too many nodes: a cluster has ports for %d", blockSize-firstNodePort)
		}
		ports[name] = next
		used[next] = true
	}
	return ports, nil
}

// portRun is a run of nodes whose numbers and ports both count up by one.
type portRun struct{ node, port, count int }

// runs splits the nodes 1 to count of a group into as few runs as possible.
func runs(group NodeGroup, ports map[string]int) []portRun {
	var out []portRun
	for i := 1; i <= group.Count; i++ {
		port := ports[group.Name(i)]
		if n := len(out) - 1; n >= 0 && out[n].port+out[n].count == port {
			out[n].count++
			continue
		}
		out = append(out, portRun{node: i, port: port, count: 1})
	}
	return out
}
