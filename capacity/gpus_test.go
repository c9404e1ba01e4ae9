package capacity

import "testing"

func TestGPUs(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "(null)": 0, "gpu:8": 8, "gpu:h100:8(S:0-1)": 8, "gpu:h100:4(S:0),gpu:a100:2(S:1),shard:16": 6, "shard:64": 0,
		"gpu:a100:1(IDX:0,2),craynetwork:4": 1, "gres:gpu:24": 24, "gres/gpu:24": 24, "gres/gpu=4": 4, "gres/gpu:h100=4,gres/shard=2": 4,
		"gpu": 1, "gpu:h100": 1, "gres:gpu:gpu:4": 4, "gres:none": 0, "gpu:0": 0, ",,gpu:2,": 2,
	} {
		if got := GPUs(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
